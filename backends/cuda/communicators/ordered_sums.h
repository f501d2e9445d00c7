// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_COMMUNICATORS_ORDERED_SUMS_H_
#define BACKENDS_CUDA_COMMUNICATORS_ORDERED_SUMS_H_

#include <cstdint>
#include <map>
#include <tuple>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/scratch.h"
#include "layouts/reshard_path.h"

namespace mtf::cuda {

// Reductions in rank order, built on a library that guarantees no order. Each
// rank receives the same shard of all operands (all_to_all), adds them up with
// our own kernel and all_gathers the result. An all_reduce moves the bytes of a
// ring, 2 (n - 1) / n of the operand, in two calls instead of one; small
// operands are gathered completely and added up on every rank.
//
// All reductions of one object run on one stream and share scratch memory.
//
// Groups that reduce replicas of one value therefore get the same bits, and a
// maximum is NaN if any of its numbers is.
class OrderedSums {
 public:
  explicit OrderedSums(Runtime& runtime)
      : runtime_(runtime), scratch_(runtime) {}

  // Whether a reduction needs a fixed order. Sums of floats do from three ranks
  // on if other groups hold replicas; the sum of two floats has only one order.
  // Maxima and minima of floats always do: NCCL compares with fmaxf (its
  // device/reduce_kernel.h), which drops NaN and may return either zero, unlike
  // our devices.
  //
  // Maxima could be one call on order-preserving integers, but would need a
  // kernel before and after, and for 16-bit floats twice the bytes, since NCCL
  // has no such integers. They occur as one number per row of a sharded softmax
  // or loss: few bytes, gathered completely.
  static bool IsNeeded(int ranks, DType dtype, ReduceKind kind,
                       bool replicated_outside) {
    if (!IsFloat(dtype)) return false;
    return kind == ReduceKind::kSum ? replicated_outside && ranks > 2
                                    : ranks > 1;
  }

  // Allocates memory and compiles kernels, which otherwise happens at the first
  // call, for reductions of up to `count` elements: of an all_reduce's operand,
  // of a reduce_scatter's result.
  absl::Status Prepare(CollectiveKind collective, int ranks, int64_t count,
                       DType dtype, ReduceKind kind);

  // The same as in NcclGroup.
  absl::Status AllReduce(NcclGroup& group, int ranks,
                         absl::Span<const NcclGroup::ReduceBuffer> buffers,
                         DType dtype, ReduceKind kind);
  absl::Status ReduceScatter(NcclGroup& group, int ranks, const void* in,
                             void* out, int64_t count, DType dtype,
                             ReduceKind kind);

 private:
  // Kernels that process one element, or 16 bytes of elements, at a time.
  struct Kernels {
    Function* single = nullptr;
    Function* packed = nullptr;
  };
  using Key = std::tuple<int, DType, ReduceKind>;

  absl::StatusOr<Kernels> Find(int ranks, DType dtype, ReduceKind kind);
  // Most bytes of a batch of operands.
  int64_t BatchBytes() const;
  absl::Status ReduceBatch(NcclGroup& group, int ranks,
                           absl::Span<const NcclGroup::ReduceBuffer> buffers,
                           DType dtype, ReduceKind kind);
  // out[i] = the sum of in[rank * block + i] over all ranks.
  absl::Status Combine(int ranks, const void* in, void* out, int64_t block,
                       int64_t count, DType dtype, ReduceKind kind);

  Runtime& runtime_;
  Scratch scratch_;
  int64_t largest_ = 0;  // bytes of an operand
  std::map<Key, Kernels> kernels_;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_COMMUNICATORS_ORDERED_SUMS_H_
