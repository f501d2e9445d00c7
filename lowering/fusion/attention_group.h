// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_FUSION_ATTENTION_GROUP_H_
#define LOWERING_FUSION_ATTENTION_GROUP_H_

#include <cstdint>
#include <vector>

#include "lowering/fusion/attention_problem.h"
#include "lowering/fusion/fused_group.h"

namespace mtf {

// Scaled dot product attention as a layer composes it, in 16-bit floats, with a
// softmax in f32:
//
//   %s = einsum(%q, %k) sum{d}               [batch, heads, length, memory]
//   %w = softmax of %s * scale + added       over memory, where a place may see
//   %o = einsum(%w, %v) sum{memory}          [batch, length, heads, d]
//
// and its gradient, four more einsums around that of the softmax. A device that
// has fused attention runs each as one kernel and never writes what is of
// length times memory. Backward it needs of forward q, k, v, the output and a
// number per row, its sum. The sums are kept where the weights would be, which
// the gradient reads and nobody else, and the output where it is.
//
// A place may see those up to itself, or those that `visible` says, or both. A
// row that sees nothing is of zeros, which the kernels of libraries know
// nothing of. What `visible` and `added` say reaches them as one bias, which is
// kept for backward too; it has one place along batch, heads and length where
// both have.
struct AttentionGroup {
  // A value over some of batch, heads, length and memory, and where its places
  // lie.
  struct Mask {
    int value = -1;                                        // -1: there is none
    int64_t batch = 0, heads = 0, length = 0, memory = 0;  // strides
  };
  // Instructions, ascending, with nothing between them that runs. `backward` is
  // empty where there is no gradient.
  std::vector<int> forward, backward;
  AttentionProblem problem;  // forward
  // Values; a q that is scaled before the scores counts as q.
  int q = -1, k = -1, v = -1, o = -1;
  int scores = -1, weights = -1;
  int d_o = -1, d_q = -1, d_k = -1, d_v = -1;
  Mask visible, added;  // of booleans; of floats

  // The memory of the weights has, for backward, the sums; then, where there is
  // one, the bias, and for each row of it the first place that is seen (int32).
  int64_t bias_offset() const;
  int64_t first_seen_offset() const;
  int64_t kept_bytes() const;  // of all; 0 where nothing is kept
  AttentionProblem BackwardProblem() const;
  // How the two are planned in memory.
  std::vector<FusedGroup> FusedGroups() const;
};

// All of them as PlanBuffersOf takes them.
std::vector<FusedGroup> FusedGroupsOf(
    const std::vector<AttentionGroup>& attention);

}  // namespace mtf

#endif  // LOWERING_FUSION_ATTENTION_GROUP_H_
