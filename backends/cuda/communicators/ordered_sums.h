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

// Reductions whose order is that of places, over a library that promises none:
// every place gets the same part of what all have, adds it up with a kernel of
// our own, and hands it round. It moves the bytes of a ring, 2 (n - 1) / n of
// the operand for all_reduce, in two calls instead of one; little is gathered
// whole and added up everywhere.
//
// All of one object run on one stream, and share room on it.
//
// Groups that reduce replicas of one value then get the same bits, whatever the
// library would do in each; and a maximum is NaN where one of its numbers is.
class OrderedSums {
 public:
  explicit OrderedSums(Runtime& runtime) : runtime_(runtime), room_(runtime) {}

  // Whether it makes a difference. Of floats: to sums of three or more where
  // others hold replicas, for two floats have one sum; and to every maximum and
  // minimum, because NCCL compares by fmaxf (its device/reduce_kernel.h), which
  // drops NaN and may take either zero, and our devices do neither.
  //
  // Floats as integers of their order would keep it to one call of the library,
  // but they take a kernel before and one behind, and those of 16 bits twice
  // the bytes, since it has no such integers. What is reduced so is a number
  // per row, of a softmax or loss whose rows are cut: little, and gathered
  // whole.
  static bool Matters(int places, DType dtype, ReduceKind kind,
                      bool replicated_outside) {
    if (!IsFloat(dtype)) return false;
    return kind == ReduceKind::kSum ? replicated_outside && places > 2
                                    : places > 1;
  }

  // Makes room and kernels, which come with the first call otherwise, for
  // reductions of up to `count` elements: of an operand of
  // all_reduce, of a result of reduce_scatter.
  absl::Status Prepare(CollectiveKind collective, int places, int64_t count,
                       DType dtype, ReduceKind kind);

  // As NcclGroup has them.
  absl::Status AllReduce(NcclGroup& group, int places,
                         absl::Span<const NcclGroup::Piece> pieces, DType dtype,
                         ReduceKind kind);
  absl::Status ReduceScatter(NcclGroup& group, int places, const void* in,
                             void* out, int64_t count, DType dtype,
                             ReduceKind kind);

 private:
  // Elements of which one at a time is taken, or 16 bytes of them.
  struct Kernels {
    Function* single = nullptr;
    Function* packed = nullptr;
  };
  using Key = std::tuple<int, DType, ReduceKind>;

  absl::StatusOr<Kernels> Find(int places, DType dtype, ReduceKind kind);
  // What fits into a batch of operands, in bytes.
  int64_t BatchBytes() const;
  absl::Status ReduceBatch(NcclGroup& group, int places,
                           absl::Span<const NcclGroup::Piece> pieces,
                           DType dtype, ReduceKind kind);
  // out[i] = the sum of in[place * block + i] over all places.
  absl::Status Combine(int places, const void* in, void* out, int64_t block,
                       int64_t count, DType dtype, ReduceKind kind);

  Runtime& runtime_;
  Scratch room_;
  int64_t largest_ = 0;  // bytes of an operand
  std::map<Key, Kernels> kernels_;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_COMMUNICATORS_ORDERED_SUMS_H_
