// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_FUSION_COMPOSED_ATTENTION_H_
#define LOWERING_FUSION_COMPOSED_ATTENTION_H_

#include <string>
#include <vector>

#include "lowering/fusion/attention_group.h"
#include "lowering/program/program.h"

namespace mtf {

// An attention that no device runs as one kernel.
struct ComposedAttention {
  int scores = -1;  // the instruction that computes them
  std::string why;  // "the layout shards length over model"
};

// Finds the computations of a lowered program that look like attention but are
// not among `fused`: a softmax over a dimension that the next einsum sums over,
// of an einsum that has the dimension from another operand. Forward only, in
// program order. `why` is the first reason for which FindAttention does not
// match: dtype and sizes (CheckFusedAttention), the layout, dropout, a mask, or
// what reads values or runs in between.
std::vector<ComposedAttention> FindComposedAttention(
    const Program& program, const std::vector<AttentionGroup>& fused);

}  // namespace mtf

#endif  // LOWERING_FUSION_COMPOSED_ATTENTION_H_
