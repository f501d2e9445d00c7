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

// The number of calls of a collective and their bytes on the wire (WireBytes).
struct CollectiveCount {
  int64_t calls = 0;
  int64_t bytes = 0;
  friend bool operator==(const CollectiveCount&,
                         const CollectiveCount&) = default;
};
// By kind of collective and mesh axes.
using CollectiveCounts =
    std::map<std::pair<CollectiveKind, AxisSet>, CollectiveCount>;

// The placement of this rank on its host.
struct RankPlacement {
  int local_ranks = 1;  // ranks on this host
  int local_rank = 0;   // of this process among those of its host
  int threads = 1;      // available to the kernels of this rank
  std::string warning;  // for the user, such as ranks bound to too few cores
};

// Moves data between the ranks of a mesh. There is one object per rank; all
// ranks make the same calls in the same order. Buffers are contiguous; the
// executor packs and unpacks them. Reductions add in the order of the ranks of
// the group, so that replicas are bitwise equal and runs are reproducible.
class Communicator {
 public:
  // The ranks that differ from this rank only along `axes`.
  struct Group {
    int id = -1;
    AxisList axes;
    std::vector<int64_t> ranks;  // by index in the group
    int index = 0;               // of this rank in `ranks`
    // Set for reductions whose result other groups compute as well, on other
    // ranks. They need an order of addition that does not depend on the group,
    // which the communication library may not guarantee.
    bool replicated_outside = false;
    // Set for asynchronous collectives, which have a group of their own.
    bool asynchronous = false;
  };

  // One of the buffers of a bucketed all_reduce; `in` may equal `out`.
  struct ReduceBuffer {
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

  // The group of this rank over `axes`. Groups are created on first use and
  // kept; the two flags select separate groups unless reduces_in_order().
  // Collective: every rank requests the same groups in the same order.
  absl::StatusOr<const Group*> GroupOver(const AxisList& axes,
                                         bool replicated_outside = false,
                                         bool asynchronous = false);

  virtual RankPlacement placement() const { return {}; }

  // Whether every reduction adds in the order of the ranks of the group.
  virtual bool reduces_in_order() const { return true; }

  // True if a wait cannot time out, because ranks communicate by MPI messages.
  virtual bool can_wait_forever() const { return false; }

  // Returns a number, from 1, that identifies a program in RankPosition.
  // Numbers wrap around after kMaxPrograms. Every rank calls this in the same
  // order.
  int NumberProgram() {
    return programs_ = programs_ % RankPosition::kMaxPrograms + 1;
  }
  // Publishes the position of this rank to the others. Costs one store.
  void SetPosition(const RankPosition& position) {
    position_->word.store(position.Pack(), std::memory_order_relaxed);
  }
  // Publishes that this rank has ended: ranks that wait for it in a collective
  // get an error. From then on it may join only collectives that all ranks join
  // after they have ended.
  void SetState(RankState state) {
    position_->state.store(state, std::memory_order_release);
  }
  // The position that `rank` last published; nullopt if it is on another host
  // and its position is unknown.
  std::optional<RankPosition> PositionOf(int64_t rank) const;

  // Called once for each collective before the first step, to allocate what it
  // needs. `count` is the count or bytes of the call below; for an all_reduce,
  // the count of its largest buffer. Not collective.
  virtual absl::Status PrepareCollective(CollectiveKind /*kind*/,
                                         const Group& /*group*/,
                                         int64_t /*count*/, DType /*dtype*/,
                                         ReduceKind /*reduce*/) {
    return absl::OkStatus();
  }

  // Called by every rank after all have prepared a program, before its first
  // step. Ranks agree here on choices that must be equal everywhere, such as
  // the algorithms of a library. Collective.
  virtual absl::Status SettleChoices() { return absl::OkStatus(); }

  // The collectives. Each updates counts() and then runs, or is enqueued if the
  // memory belongs to a device with a stream. `count` is in elements of `dtype`
  // and may exceed 2^31.
  absl::Status AllReduce(const Group& group,
                         absl::Span<const ReduceBuffer> buffers, DType dtype,
                         ReduceKind kind);
  // `out` receives group.ranks.size() blocks of `bytes`, by index in the group.
  absl::Status AllGather(const Group& group, const void* in, void* out,
                         int64_t bytes);
  // `in` holds one block of `count` elements per rank of the group; `out`
  // receives the reduced block of this rank.
  absl::Status ReduceScatter(const Group& group, const void* in, void* out,
                             int64_t count, DType dtype, ReduceKind kind);
  // Block i of `in` goes to rank i of the group; block j of `out` comes from
  // rank j of the group.
  absl::Status AllToAll(const Group& group, const void* in, void* out,
                        int64_t bytes);
  // Sends `in` to rank `destination` and receives `out` from rank `source`.
  // Both are ranks of the mesh that are in `group`; either may be this rank.
  absl::Status Permute(const Group& group, const void* in, void* out,
                       int64_t bytes, int64_t source, int64_t destination);

  // Control traffic, not included in counts().
  // Returns the first error of all ranks by (instruction, position).
  virtual absl::StatusOr<StepError> Agree(const StepError& error) = 0;
  virtual absl::Status Barrier() = 0;
  // Waits until all ranks have signed in, and returns whether all have passed
  // the same `fingerprint` of what they will do next. On an error, the payload
  // kMissingRanks lists ranks that have not signed in, as far as known.
  virtual absl::StatusOr<bool> SignIn(uint64_t fingerprint);
  // Returns the texts of all ranks, by rank.
  virtual absl::StatusOr<std::vector<std::string>> AllGatherText(
      const std::string& text) = 0;

  const CollectiveCounts& counts() const { return counts_; }
  void ResetCounts() { counts_.clear(); }

 protected:
  // Sets the slots in which ranks publish their positions, by rank; null for
  // ranks whose slot this rank cannot access. The slots outlive this object.
  void KeepPositions(std::vector<RankPositionSlot*> slots);
  // The slot in which this rank publishes its position.
  const RankPositionSlot& position_slot() const { return *position_; }
  // Uses the slots of `other`, a communicator of the same rank.
  void SharePositions(const Communicator& other);

  // Adds the collectives of a replayed segment to counts().
  void AddCounts(const CollectiveCounts& counts);

  // The implementations of the above, for groups of at least two ranks.
  // OpenGroup is called once for each new group.
  virtual absl::Status OpenGroup(const Group& group) = 0;
  virtual absl::Status DoAllReduce(const Group& group,
                                   absl::Span<const ReduceBuffer> buffers,
                                   DType dtype, ReduceKind kind) = 0;
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
  // Implements the collectives of a group of one rank.
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

// All ranks of a mesh as threads of this process, each with its communicator.
// The threads live as long as the object, and so do the thread pools of their
// kernels.
//
//   LocalRanks ranks(*Mesh::Parse("data:2,model:2"));
//   MTF_RETURN_IF_ERROR(ranks.Run([&](Communicator& communicator) {
//     const int64_t rank = communicator.rank();
//     return executors[rank]->Run(feeds, seed, step, &outputs[rank]);
//   }));
class LocalRanks {
 public:
  // Throws std::system_error if the process cannot create the threads.
  explicit LocalRanks(const Mesh& mesh);
  ~LocalRanks();

  // Calls `body` concurrently on every rank, each on its own thread, and
  // returns the first error by rank. If a rank fails, the collectives of the
  // others return kAborted instead of waiting forever. Exceptions from `body`
  // become errors as in CatchExceptions. The object stays usable after an
  // error.
  //
  // A thread cannot be stopped: if a rank does not return after another one
  // timed out waiting for it, the process waits for the length of the timeout
  // once more (at least one second, at most ten), prints the error and exits
  // with status 75.
  absl::Status Run(const std::function<absl::Status(Communicator&)>& body);

  Communicator& communicator(int64_t rank);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Creates the communicator of this process under an MPI launcher. The size of
// MPI_COMM_WORLD must equal the number of devices of `mesh`. kUnimplemented in
// a build without MPI. Initialises MPI once per process and finalises it when
// the process exits; a nonzero exit status ends the job, so that no rank waits
// for one that failed.
absl::StatusOr<std::unique_ptr<Communicator>> CreateMpiCommunicator(
    const Mesh& mesh);

// The number of ranks of MPI_COMM_WORLD, which "data:-1" in a mesh refers to.
// Errors as above.
absl::StatusOr<int64_t> MpiWorldSize();

// Ends all ranks of an MPI job; without MPI, this process. Called at the top
// level of a program after it has printed its error.
[[noreturn]] void AbortAllRanks(int exit_code);

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATOR_H_
