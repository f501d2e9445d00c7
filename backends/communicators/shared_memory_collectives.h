// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_SHARED_MEMORY_COLLECTIVES_H_
#define BACKENDS_COMMUNICATORS_SHARED_MEMORY_COLLECTIVES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "backends/communicators/collective_call.h"
#include "backends/communicators/group_barrier.h"
#include "backends/communicators/group_collectives.h"

namespace mtf {

// The collectives of one group whose ranks share memory: threads of a process
// or processes of a host. There is one object per rank, all over the same
// memory.
//
// Each rank copies the data that others need, chunk by chunk, into a segment
// that they read. It has two segments and alternates between them, so that one
// barrier per chunk is enough: a rank that reaches the next barrier has
// finished reading the segments of the previous chunk. Threads could read each
// other's buffers in place, but the next writer of such a buffer would have to
// fetch back the cache lines that the reader holds, which takes several times
// as long as the streaming copy (StreamBytes); nor could a rank that fails free
// its buffers.
class SharedMemoryCollectives : public GroupCollectives {
 public:
  struct Options {
    int64_t segment_bytes = 0;
    WaitPolicy wait;
    // The slots of the ranks of the mesh, by rank; null for ranks whose slot
    // this rank cannot access.
    absl::Span<RankPositionSlot* const> slots;
  };

  // Bytes of zeroed memory, aligned to 64, that a group of `size` ranks needs.
  // Raises `segment_bytes` to the minimum for `size` ranks.
  static int64_t MemoryBytes(int size, int64_t* segment_bytes);

  SharedMemoryCollectives(const Communicator::Group& group, void* memory,
                          const Options& options);

  absl::Status AllReduce(absl::Span<const Communicator::ReduceBuffer> buffers,
                         DType dtype, ReduceKind kind) override;
  absl::Status AllGather(const void* in, void* out, int64_t bytes) override;
  absl::Status ReduceScatter(const void* in, void* out, int64_t count,
                             DType dtype, ReduceKind kind) override;
  absl::Status AllToAll(const void* in, void* out, int64_t bytes) override;
  absl::Status Permute(const void* in, void* out, int64_t bytes, int source,
                       int destination) override;
  absl::Status Barrier() override;
  absl::StatusOr<bool> SignIn(uint64_t fingerprint) override;

  // Returns to the initial state after a failure, while no rank is in a
  // collective.
  void Reset();

 private:
  // The call that a rank announces at a barrier. Two per rank, used
  // alternately.
  struct alignas(64) Slot {
    CollectiveCall call;
    std::atomic<uint64_t> round;  // 1 + the turn this slot was filled for
  };
  struct Chunk;

  Slot& slot(int index, uint64_t turn) const;
  std::byte* segment(int index, uint64_t turn) const;

  // Announces `call` and waits for all ranks. Begins a new turn.
  absl::Status Announce(const CollectiveCall& call);
  // The calls that the ranks announced for the last turn.
  std::vector<CollectiveCall> AnnouncedCalls() const;
  // As Announce, and checks that the calls of all ranks are equal.
  absl::Status Meet(const CollectiveCall& call);
  // Waits for all ranks of turn `turn`.
  absl::Status WaitForAll(uint64_t turn);
  // The indices of the ranks that have not announced a call for turn `turn`.
  std::vector<int> Missing(uint64_t turn) const;
  RankState StateOf(int index) const;
  absl::Status TimeoutError(uint64_t turn) const;
  absl::Status HopelessError(uint64_t turn) const;

  // Copies the `blocks` blocks of `block_bytes` at `in` to this rank's
  // segments, chunk by chunk, and calls `use` for each chunk while the chunks
  // of all ranks are readable. Chunks begin at multiples of 64 bytes.
  absl::Status ForEachChunk(const CollectiveCall& call, const void* in,
                            int64_t blocks, int64_t block_bytes,
                            absl::FunctionRef<void(const Chunk&)> use);

  // One chunk of an all_reduce: elements [begin, begin + n).
  absl::Status AllReduceChunk(
      const CollectiveCall& call,
      absl::Span<const Communicator::ReduceBuffer> buffers, int64_t begin,
      int64_t n, DType dtype, ReduceKind kind);

  const Communicator::Group group_;
  const int size_;
  const int index_;
  const Options options_;
  std::vector<const RankPositionSlot*> positions_;  // by index in the group
  GroupBarrier* barrier_;
  std::byte* slots_;
  std::byte* segments_;
  uint64_t turn_ = 0;
};

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_SHARED_MEMORY_COLLECTIVES_H_
