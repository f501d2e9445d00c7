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
//   %w = softmax of %s * scale + added       over memory, where visible
//   %o = einsum(%w, %v) sum{memory}          [batch, length, heads, d]
//
// and its gradient, four more einsums around that of the softmax. A device with
// fused attention runs each as one kernel and never stores a value of length
// times memory elements. The backward kernel reads q, k, v, the output and one
// number per row, its softmax sum. The sums are stored in the buffer of the
// weights, which only the gradient reads.
//
// A position attends to the positions up to itself (causal), or to those that
// `visible` selects, or both. A row that attends to nothing is zero, which the
// kernels of libraries do not handle. The kernels receive `visible` and `added`
// as one bias, which is kept for the backward kernel; it is broadcast along
// those of batch, heads and length that both masks lack.
struct AttentionGroup {
  // A value over some of batch, heads, length and memory, with its strides in
  // elements.
  struct Mask {
    int value = -1;                                        // -1: none
    int64_t batch = 0, heads = 0, length = 0, memory = 0;  // strides
  };
  // Instructions in ascending order; no other computation is scheduled between
  // them. `backward` is empty if there is no gradient.
  std::vector<int> forward, backward;
  AttentionProblem problem;  // of the forward kernel
  // Values; if q is scaled before the scores, `q` is the scaled one.
  int q = -1, k = -1, v = -1, o = -1;
  int scores = -1, weights = -1;
  int d_o = -1, d_q = -1, d_k = -1, d_v = -1;
  Mask visible, added;  // of booleans; of floats

  // Layout of the buffer of the weights, as kept for the backward kernel: the
  // softmax sums; then, if there is a bias, the bias and for each of its rows
  // the first visible position (int32).
  int64_t bias_offset() const;
  int64_t first_seen_offset() const;
  int64_t kept_bytes() const;  // in all; 0 if nothing is kept
  AttentionProblem BackwardProblem() const;
  // The forward and the backward kernel as memory plans need them.
  std::vector<FusedGroup> FusedGroups() const;
};

// The groups of all attentions, for PlanBuffersOf.
std::vector<FusedGroup> FusedGroupsOf(
    const std::vector<AttentionGroup>& attention);

}  // namespace mtf

#endif  // LOWERING_FUSION_ATTENTION_GROUP_H_
