// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_PLAN_EINSUMS_H_
#define LOWERING_PASSES_PLAN_EINSUMS_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Chooses the batched matmul that computes each einsum on one device
// (einsum_plan.h).
//
//   before  %y : f32[b:8/data=4, f:6] = einsum(%x, %w) sum{d}   %w [d:16, f:6]
//   after   %y : f32[b:8/data=4, f:6] = einsum(%x, %w) sum{d} by{m 4 n 6 k 16}
//
// Runs after shard_shapes, because the plan depends on the strides of shards.
absl::Status PlanEinsums(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_PLAN_EINSUMS_H_
