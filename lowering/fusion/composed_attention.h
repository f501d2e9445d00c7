// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_FUSION_COMPOSED_ATTENTION_H_
#define LOWERING_FUSION_COMPOSED_ATTENTION_H_

#include <string>
#include <vector>

#include "lowering/fusion/attention_group.h"
#include "lowering/program/program.h"

namespace mtf {

// Attention that no device runs as one kernel.
struct ComposedAttention {
  int scores = -1;  // the instruction that makes them
  std::string why;  // "the layout cuts length over model"
};

// What looks like attention in a lowered program (a softmax over a dimension
// that the next einsum sums over, of an einsum that has it from another
// tensor), and is none of the `fused`: forward only, in the order of the
// program. The reason is the first that keeps FindAttention from taking it:
// dtype and sizes (CheckFusedAttention), the layout, dropout, a mask, or what
// reads or runs in between.
std::vector<ComposedAttention> FindComposedAttention(
    const Program& program, const std::vector<AttentionGroup>& fused);

}  // namespace mtf

#endif  // LOWERING_FUSION_COMPOSED_ATTENTION_H_
