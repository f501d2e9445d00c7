// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_MATMUL_GROUPS_H_
#define LOWERING_MATMUL_GROUPS_H_

#include <vector>

#include "lowering/program.h"

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
// reads it. The gradient is taken for 16-bit floats only: how many digits the
// libraries give the tanh in it is known to no more than that.
struct MatmulGroup {
  std::vector<int> members;  // the einsum, then maps
  bool gelu = false;         // the last of them
  // Values; -1 where there is none.
  int result = -1, addend = -1, bias = -1, kept = -1;
  // What the gelu was of whose gradient the last member is.
  int slope_at = -1;
};

// Groups whose einsum is one matmul without a copy of its result. Between
// members stands nothing that runs. They share no instruction, nor one that is
// `taken`.
std::vector<MatmulGroup> FindMatmulGroups(const Program& program,
                                          const std::vector<bool>& taken);

}  // namespace mtf

#endif  // LOWERING_MATMUL_GROUPS_H_
