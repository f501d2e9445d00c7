// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PLAN_EINSUMS_H_
#define LOWERING_PLAN_EINSUMS_H_

#include "absl/status/status.h"
#include "lowering/program.h"

namespace mtf {

// Chooses for every einsum the batched matmul that computes it on one device
// (einsum_plan.h). Runs after shard_shapes, because strides are those of
// shards.
absl::Status PlanEinsums(Program& program);

}  // namespace mtf

#endif  // LOWERING_PLAN_EINSUMS_H_
