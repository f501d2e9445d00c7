// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_FUSION_BIAS_GRADIENTS_H_
#define LOWERING_FUSION_BIAS_GRADIENTS_H_

#include <vector>

#include "lowering/fusion/fused_group.h"
#include "lowering/program/program.h"

namespace mtf {

// The gradient of a bias, computed by the matmul that computes the gradient of
// the weight: the matmul reads the same operand and sums it as well.
//
//   %db = reduce(%dy) sum                    // [d_ff] of [batch, d_ff]
//   %dx = einsum(%dy, %w) sum{d_ff}
//   %dw = einsum(%x, %dy) sum{batch}         // [d_model, d_ff]
//
// %db and %dw form a group: %db sums over the dimensions that the matmul sums
// over, and keeps all rows or all columns of the matmul, contiguous in memory.
// The sum is computed in float32 from the stored numbers, and %db has the
// dtype of %dw, the only one that libraries write.
struct BiasGradient {
  int reduce = -1, einsum = -1;  // instructions
  std::vector<int> members() const;
};

// The operand of `einsum`, 0 or 1, that `reduce` sums in this way; -1 if the
// two do not form a group.
int SummedOperand(const Program& program, const Instruction& einsum,
                  const Instruction& reduce);

// Finds such groups among the instructions for which `is_grouped` is false, by
// index. Callers find row groups first: a sum that fuses with the producer of
// its operand (row_groups.h) costs less there. Members lie in one window
// (fusion_window.h). Ordered by the reductions. Takes linear time.
std::vector<BiasGradient> FindBiasGradients(
    const Program& program, const std::vector<bool>& is_grouped);

// The groups for PlanBuffersOf: both results are stored.
std::vector<FusedGroup> FusedBiasGradients(
    const Program& program, const std::vector<BiasGradient>& groups);

}  // namespace mtf

#endif  // LOWERING_FUSION_BIAS_GRADIENTS_H_
