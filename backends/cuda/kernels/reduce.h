// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_KERNELS_REDUCE_H_
#define BACKENDS_CUDA_KERNELS_REDUCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/backend.h"
#include "backends/cuda/codegen/elements.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/scratch.h"
#include "mtf/emitter.h"
#include "mtf/map_expression.h"

namespace mtf::cuda {

// Reduces an elementwise function of the operands over every dimension of
// `space` that the result lacks, reading in memory order. A row is reduced by a
// few lanes, a warp or a block, columns by tiles; few but long reductions take
// two kernels with partial results in `scratch`. Floats are added in float32
// for about 64 elements and in double beyond, integers in int64. The order
// depends on the extents only, so every run gives the same bits.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareReduce(
    Runtime& runtime, Scratch& scratch, ReduceKind kind,
    const MapExpression& expression, absl::Span<const BoundValue> operands,
    absl::Span<const SpaceDimension> space, const BoundValue& result);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_KERNELS_REDUCE_H_
