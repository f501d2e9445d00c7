// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_REDUCE_H_
#define BACKENDS_CPU_REDUCE_H_

#include <memory>

#include "absl/types/span.h"
#include "backends/backend.h"
#include "backends/cpu/block_program.h"
#include "mtf/emitter.h"
#include "mtf/map_expression.h"

namespace mtf::cpu {

// Reduces an elementwise function of the operands over every dimension of
// `space` that the result lacks. Sums of floats are in float within a few
// hundred elements and in double beyond, sums of integers in int64. The order
// depends only on the extents, so any number of threads gives the same bits.
std::unique_ptr<Kernel> PrepareReduce(ReduceKind kind,
                                      const MapExpression& expression,
                                      absl::Span<const BoundValue> operands,
                                      absl::Span<const SpaceDimension> space,
                                      const BoundValue& result);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_REDUCE_H_
