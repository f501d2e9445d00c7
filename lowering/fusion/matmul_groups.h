// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_FUSION_MATMUL_GROUPS_H_
#define LOWERING_FUSION_MATMUL_GROUPS_H_

#include <vector>

#include "lowering/fusion/fused_group.h"
#include "lowering/program/program.h"

namespace mtf {

// An einsum and its epilogue, the maps that a matmul applies before it writes:
//
//   %y = einsum(%h, %w) sum{d_ff}        %z = map(%x, %y) add
//   %y = einsum(%h, %w) sum{d_model}     %z = map(%y, %bias) add
//   %y = einsum(%h, %w) sum{d_model}     %z = map(%y) gelu
//   %y = einsum(%dz, %w) sum{d_model}
//       %dx = map(%y, %x) [gelu_derivative($1); mul($0, $2)]
//
// an addition of another tensor, a bias, GELU, or any supported combination of
// them, or the gradient of GELU. The input of GELU is written too if it has
// other readers. GELU and its gradient are matched for 16-bit floats only: that
// is the precision to which the tanh of the libraries is known.
struct MatmulGroup {
  std::vector<int> members;  // the einsum, then maps
  bool gelu = false;         // the last map ends with GELU
  // Other instructions run between the einsum and its single map, which is the
  // only reader.
  bool late = false;
  // Values; -1 if absent. `kept` is the input of GELU, if written.
  int result = -1, addend = -1, bias = -1, kept = -1;
  // The input of the GELU whose gradient the last member computes.
  int gelu_gradient_input = -1;
};

// Finds the groups whose einsum is one matmul that needs no copy of its result.
// Members are adjacent, except in late groups: the sum of two gradients, or the
// gradient of GELU, follows the gradient of a weight. Their members lie in one
// window (fusion_window.h); a sum must also be near the einsum and must not be
// written to a variable, which a single map may do in place. The groups share
// no instruction with each other and contain none that `is_grouped` marks.
// Takes linear time.
std::vector<MatmulGroup> FindMatmulGroups(const Program& program,
                                          const std::vector<bool>& is_grouped);

// The groups that affect the memory plan: late ones, whose product has no
// memory.
std::vector<FusedGroup> FusedMatmuls(const std::vector<MatmulGroup>& groups);

}  // namespace mtf

#endif  // LOWERING_FUSION_MATMUL_GROUPS_H_
