// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATOR_H_
#define BACKENDS_COMMUNICATOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/backend.h"
#include "backends/rank_position.h"
#include "layouts/mesh.h"
#include "layouts/reshard_path.h"
#include "mtf/dtype.h"
#include "mtf/emitter.h"

namespace mtf {

// Calls and bytes on the wire (WireBytes) per collective kind and axes.
struct CollectiveCount {
  int64_t calls = 0;
  int64_t bytes = 0;
  friend bool operator==(const CollectiveCount&,
                         const CollectiveCount&) = default;
};
using CollectiveCounts =
    std::map<std::pair<CollectiveKind, AxisSet>, CollectiveCount>;

// How the ranks of a job sit on this host.
struct RankPlacement {
  int local_ranks = 1;  // ranks on this host
  int local_rank = 0;   // this process among those of its host
  int threads = 1;      // what a kernel of this rank may use
  std::string warning;  // for the user, such as ranks bound to too few cores
};

// Moves data between the ranks of a mesh. One object per rank; all ranks make
// the same calls in the same order. Buffers are contiguous; the executor packs
// around them. Reductions add in the order of places in the group, so that
// replicas are bitwise equal and runs repeat.
class Communicator {
 public:
  // The ranks that differ only along `axes`, in the order of their places.
  struct Group {
    int id = -1;
    AxisList axes;
    std::vector<int64_t> ranks;
    int place = 0;  // of this rank
    // Of reductions with replicas outside of the group, which get the same by
    // a reduction of their own: the library at hand might add in another order
    // there. Those that run beside other work have a group for themselves.
    bool replicated_outside = false;
    bool asynchronous = false;
  };

  // A part of a bucketed all_reduce; `in` may equal `out`.
  struct Piece {
    const void* in = nullptr;
    void* out = nullptr;
    int64_t count = 0;  // elements
  };

  explicit Communicator(Mesh mesh, int64_t rank)
      : mesh_(std::move(mesh)), rank_(rank) {}
  virtual ~Communicator() = default;

  const Mesh& mesh() const { return mesh_; }
  int64_t rank() const { return rank_; }
  int64_t size() const { return mesh_.num_devices(); }

  // The group of this rank over `axes`; made once per list of axes, and once
  // more for reductions with replicas outside where that makes a difference.
  // Collective: every rank asks for the same groups in the same order.
  absl::StatusOr<const Group*> GroupOver(const AxisList& axes,
                                         bool replicated_outside = false,
                                         bool asynchronous = false);

  virtual RankPlacement placement() const { return {}; }

  // Whether reductions add in the order of places by themselves.
  virtual bool reduces_in_order() const { return true; }

  // True where a wait may have no end: ranks talk by MPI messages.
  virtual bool waits_for_ever() const { return false; }

  // A number for a program that this rank is going to run, from 1, and again
  // from 1 when there are no more. Every rank asks in the same order.
  int NumberProgram() {
    return programs_ = programs_ % RankPosition::kMostPrograms + 1;
  }
  // Says where this rank is, for those that wait for it. One store.
  void SetPosition(const RankPosition& position) {
    position_->word.store(position.Pack(), std::memory_order_relaxed);
  }
  // Where `rank` has last said it is; nullopt where that is not known, because
  // it is on another host.
  std::optional<RankPosition> PositionOf(int64_t rank) const;

  // Called once for each collective before the first step, so that a step finds
  // what it takes. `count` is that of the call below, of an all_reduce that of
  // its largest piece. Needs no other rank.
  virtual absl::Status PrepareCollective(CollectiveKind /*kind*/,
                                         const Group& /*group*/,
                                         int64_t /*count*/, DType /*dtype*/,
                                         ReduceKind /*reduce*/) {
    return absl::OkStatus();
  }

  // Called by every rank when all of them have prepared a program, before its
  // first step: what they have to choose alike, such as the algorithms of a
  // library, is agreed on here. Collective.
  virtual absl::Status SettleChoices() { return absl::OkStatus(); }

  // Each counts itself and then does the work, or enqueues it where the memory
  // is that of a device with a stream. Counts are of elements of
  // `dtype`, without limit (over 2^31 too).
  absl::Status AllReduce(const Group& group, absl::Span<const Piece> pieces,
                         DType dtype, ReduceKind kind);
  // `out` holds group.ranks.size() blocks of `bytes`, by place.
  absl::Status AllGather(const Group& group, const void* in, void* out,
                         int64_t bytes);
  // `in` holds a block of `count` elements per place; `out` is this place's.
  absl::Status ReduceScatter(const Group& group, const void* in, void* out,
                             int64_t count, DType dtype, ReduceKind kind);
  // Block i of `in` goes to place i; block j of `out` came from place j.
  absl::Status AllToAll(const Group& group, const void* in, void* out,
                        int64_t bytes);
  // Sends `in` to rank `destination` and receives `out` from rank `source`,
  // either of which may be this rank; both are in `group`.
  absl::Status Permute(const Group& group, const void* in, void* out,
                       int64_t bytes, int64_t source, int64_t destination);

  // Control traffic, not counted: the smallest error of all ranks; a barrier;
  // every rank's text, by rank.
  virtual absl::StatusOr<StepError> Agree(const StepError& error) = 0;
  virtual absl::Status Barrier() = 0;
  virtual absl::StatusOr<std::vector<std::string>> Exchange(
      const std::string& text) = 0;

  const CollectiveCounts& counts() const { return counts_; }
  void ResetCounts() { counts_.clear(); }

 protected:
  // Where ranks keep their positions, by rank; null where this rank cannot see
  // it. They outlive this object.
  void KeepPositions(std::vector<RankPositionSlot*> slots);
  // Keeps them where `other`, of the same rank, does.
  void SharePositions(const Communicator& other);

  // Counts again what a replay does again.
  void AddCounts(const CollectiveCounts& counts);

  // Prepares whatever the implementation needs for a new group of two ranks or
  // more; calls for a group of one do not reach it.
  virtual absl::Status OpenGroup(const Group& group) = 0;
  virtual absl::Status DoAllReduce(const Group& group,
                                   absl::Span<const Piece> pieces, DType dtype,
                                   ReduceKind kind) = 0;
  virtual absl::Status DoAllGather(const Group& group, const void* in,
                                   void* out, int64_t bytes) = 0;
  virtual absl::Status DoReduceScatter(const Group& group, const void* in,
                                       void* out, int64_t count, DType dtype,
                                       ReduceKind kind) = 0;
  virtual absl::Status DoAllToAll(const Group& group, const void* in, void* out,
                                  int64_t bytes) = 0;
  virtual absl::Status DoPermute(const Group& group, const void* in, void* out,
                                 int64_t bytes, int64_t source,
                                 int64_t destination) = 0;
  // What is left of a collective in a group of one.
  virtual absl::Status DoCopy(const void* in, void* out, int64_t bytes);

 private:
  void Count(CollectiveKind kind, const Group& group, int64_t operand_bytes);

  Mesh mesh_;
  int64_t rank_;
  std::vector<std::unique_ptr<Group>> groups_;
  CollectiveCounts counts_;
  int programs_ = 0;
  RankPositionSlot own_position_;
  RankPositionSlot* position_ = &own_position_;
  std::vector<RankPositionSlot*> positions_;
};

// All ranks of a mesh as threads of this process, each with its communicator:
// the mesh of a newcomer and of every in-process test. The threads live as
// long as the object, so thread pools of the kernels do too.
//
//   LocalRanks ranks(*Mesh::Parse("data:2,model:2"));
//   MTF_RETURN_IF_ERROR(ranks.Run([&](Communicator& communicator) {
//     const int64_t rank = communicator.rank();
//     return executors[rank]->Run(feeds, seed, step, &outputs[rank]);
//   }));
class LocalRanks {
 public:
  // Throws as std::thread does where the process may have no more threads.
  explicit LocalRanks(const Mesh& mesh);
  ~LocalRanks();

  // Calls `body` on every rank at once, rank 0 on its own thread too, and
  // returns the first error by rank. A rank that fails releases the others:
  // their collectives return kAborted instead of waiting for ever. What `body`
  // throws is an error as of CatchExceptions. After an error the object stays
  // usable. Where a rank does not come back after others
  // gave up waiting for it, nothing can end its thread: as long again after
  // them, from one second to ten, the process prints their error and exits
  // with status 75.
  absl::Status Run(const std::function<absl::Status(Communicator&)>& body);

  Communicator& communicator(int64_t rank);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The communicator of this process under an MPI launcher: rank and size of
// MPI_COMM_WORLD, which must equal the devices of `mesh`. kUnimplemented in a
// build without MPI. Initialises MPI once per process and finalises it when the
// process exits; an exit status other than 0 ends the job, so that no rank
// waits for one that failed.
absl::StatusOr<std::unique_ptr<Communicator>> CreateMpiCommunicator(
    const Mesh& mesh);

// The ranks of MPI_COMM_WORLD: what "data:-1" in a mesh stands for. Errors as
// above.
absl::StatusOr<int64_t> MpiWorldSize();

// Ends every rank of an MPI job, and this process in any case. For the top
// level of a program, after it has printed its error.
[[noreturn]] void AbortAllRanks(int exit_code);

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATOR_H_
