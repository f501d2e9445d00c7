// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_EINSUM_H_
#define BACKENDS_CPU_EINSUM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/backend.h"
#include "lowering/program/einsum_plan.h"
#include "lowering/program/fused_group.h"

namespace mtf::cpu {

// Prepares z = sum of x * y over the dimensions that z lacks, by the matmul of
// `plan`. Einsums that are not matmuls use other kernels: a product without a
// sum is a map; one without rows or columns of its own, or of integers, is a
// reduction.
//
// Sums are in float or int64. float16 is computed in float, and so is bfloat16
// on a CPU without instructions for it.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareEinsum(const EinsumPlan& plan,
                                                      const BoundValue& x,
                                                      const BoundValue& y,
                                                      const BoundValue& z);

// Prepares the group of an einsum and the sum of its result and another tensor
// (EpilogueGroup::accumulates). If the sum has memory of its own, every run
// copies the tensor there first.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareEinsumGroup(
    const EpilogueGroup& group, absl::Span<const Binding> members);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_EINSUM_H_
