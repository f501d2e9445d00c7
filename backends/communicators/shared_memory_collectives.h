// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_SHARED_MEMORY_COLLECTIVES_H_
#define BACKENDS_COMMUNICATORS_SHARED_MEMORY_COLLECTIVES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "backends/communicators/collective_call.h"
#include "backends/communicators/group_barrier.h"
#include "backends/communicators/group_collectives.h"

namespace mtf {

// The collectives of one group whose ranks share memory: threads of a process
// or processes of a host. One object per rank, all over the same memory.
//
// What others need of a rank's buffer it copies, chunk by chunk, to a segment
// that they read. Each rank has two segments and uses them in turn, so that one
// meeting per chunk is enough: who comes to the next meeting has finished with
// the last segment but one. Threads could read each other's buffers in place,
// but then the next writer of the buffer pays for it: fetching back the lines
// that the reader still caches takes several times as long as the copy, which
// streams past the caches (StreamBytes). Nor could a rank that fails free its
// buffers.
class SharedMemoryCollectives : public GroupCollectives {
 public:
  struct Options {
    int64_t segment_bytes = 0;
    WaitPolicy wait;
  };

  // Bytes of zeroed memory, aligned to 64, that a group of `size` ranks needs.
  // Raises `segment_bytes` to what `size` ranks need at least.
  static int64_t MemoryBytes(int size, int64_t* segment_bytes);

  SharedMemoryCollectives(const Communicator::Group& group, void* memory,
                          const Options& options);

  absl::Status AllReduce(absl::Span<const Communicator::Piece> pieces,
                         DType dtype, ReduceKind kind) override;
  absl::Status AllGather(const void* in, void* out, int64_t bytes) override;
  absl::Status ReduceScatter(const void* in, void* out, int64_t count,
                             DType dtype, ReduceKind kind) override;
  absl::Status AllToAll(const void* in, void* out, int64_t bytes) override;
  absl::Status Permute(const void* in, void* out, int64_t bytes, int source,
                       int destination) override;
  absl::Status Barrier() override;

  // After a failure, when no rank is inside: starts afresh.
  void Reset();

 private:
  // What a rank shows the others at a meeting. Two per place, used in turn.
  struct alignas(64) Slot {
    CollectiveCall call;
    std::atomic<uint64_t> meeting;  // the last one this slot was filled for
  };
  struct Chunk;

  Slot& slot(int place, uint64_t turn) const;
  std::byte* segment(int place, uint64_t turn) const;

  // Shows `call` to the others and waits until all have; checks that all say
  // the same. Begins a new turn.
  absl::Status Meet(const CollectiveCall& call);
  absl::Status TimeoutError() const;

  // Shows the `blocks` blocks of `block_bytes` at `in` to the others, chunk by
  // chunk, and calls `use` for each chunk while all can be read. Chunks begin
  // at multiples of 64 bytes.
  absl::Status ForEachChunk(const CollectiveCall& call, const void* in,
                            int64_t blocks, int64_t block_bytes,
                            absl::FunctionRef<void(const Chunk&)> use);

  // One chunk of an all_reduce: elements [begin, begin + n).
  absl::Status AllReduceChunk(const CollectiveCall& call,
                              absl::Span<const Communicator::Piece> pieces,
                              int64_t begin, int64_t n, DType dtype,
                              ReduceKind kind);

  const Communicator::Group group_;
  const int size_;
  const int place_;
  const Options options_;
  GroupBarrier* barrier_;
  std::byte* slots_;
  std::byte* segments_;
  uint64_t turn_ = 0;
};

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_SHARED_MEMORY_COLLECTIVES_H_
