// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_FUSION_BIAS_GRADIENTS_H_
#define LOWERING_FUSION_BIAS_GRADIENTS_H_

#include <vector>

#include "lowering/fusion/fused_group.h"
#include "lowering/program/program.h"

namespace mtf {

// The gradient of a weight and that of a bias, which a matmul takes together:
// it adds up the operand that it reads anyway.
//
//   %db = reduce(%dy) sum                    // [d_ff] of [batch, d_ff]
//   %dx = einsum(%dy, %w) sum{d_ff}
//   %dw = einsum(%x, %dy) sum{batch}         // [d_model, d_ff]
//
// %db and %dw are a group: what %db is summed over is what the matmul sums
// over, and what is left are all of its rows or all of its columns, in one
// stretch of memory. The numbers are those in memory, added up in float32, and
// %db is of the dtype of %dw, for the libraries write no other.
struct BiasGradient {
  int reduce = -1, einsum = -1;  // instructions
  std::vector<int> members() const;
};

// The operand of `einsum` that `reduce` adds up so, 0 or 1; -1 for any other
// two.
int SummedOperand(const Program& program, const Instruction& einsum,
                  const Instruction& reduce);

// Such groups of what is not `taken` by others: a sum that the kernel of its
// operand can take (row_groups.h) costs less there. They reach as far as
// fusion_window.h says. In the order of the sums. Takes time in proportion to
// the program.
std::vector<BiasGradient> FindBiasGradients(const Program& program,
                                            const std::vector<bool>& taken);

// Such groups as the plan of a device takes them: both results stay in memory.
std::vector<FusedGroup> FusedBiasGradients(
    const Program& program, const std::vector<BiasGradient>& groups);

}  // namespace mtf

#endif  // LOWERING_FUSION_BIAS_GRADIENTS_H_
