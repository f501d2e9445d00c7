// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_FUSION_MATMUL_GROUPS_H_
#define LOWERING_FUSION_MATMUL_GROUPS_H_

#include <vector>

#include "lowering/fusion/fused_group.h"
#include "lowering/program/program.h"

namespace mtf {

// An einsum and the maps behind it that a matmul does before it writes:
//
//   %y = einsum(%h, %w) sum{d_ff}        %z = map(%x, %y) add
//   %y = einsum(%h, %w) sum{d_model}     %z = map(%y, %bias) add
//   %y = einsum(%h, %w) sum{d_model}     %z = map(%y) gelu
//   %y = einsum(%dz, %w) sum{d_model}    %dx = map(%y, %x) (the slope of gelu)
//
// a sum with another tensor, a bias, gelu, or what of them goes together, or
// the gradient of a gelu. What gelu is of is written too where somebody else
// reads it. Gelus and their gradients are taken for 16-bit floats only: how
// many digits the libraries give the tanh in them is known to no more than
// that.
struct MatmulGroup {
  std::vector<int> members;  // the einsum, then maps
  bool gelu = false;         // the last of them
  // Others may run between the einsum and the one map, which alone reads it.
  bool late = false;
  // Values; -1 where there is none.
  int result = -1, addend = -1, bias = -1, kept = -1;
  // What the gelu was of whose gradient the last member is.
  int slope_at = -1;
};

// Groups whose einsum is one matmul without a copy of its result. Between
// members stands nothing that runs, but for those that are late: the sum of two
// gradients, or the gradient of a gelu, stands behind the gradient of a weight,
// and is reached as fusion_window.h says, sums where they are near and no
// variable is written from them, which may be done in place. They share no
// instruction, nor one that is `taken`. Takes time in proportion to the
// program.
std::vector<MatmulGroup> FindMatmulGroups(const Program& program,
                                          const std::vector<bool>& taken);

// Those that the plan of a device has to know: late ones, whose product is
// never in memory.
std::vector<FusedGroup> FusedMatmuls(const std::vector<MatmulGroup>& groups);

}  // namespace mtf

#endif  // LOWERING_FUSION_MATMUL_GROUPS_H_
