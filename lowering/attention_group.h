// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_ATTENTION_GROUP_H_
#define LOWERING_ATTENTION_GROUP_H_

#include <cstdint>
#include <vector>

#include "lowering/attention_problem.h"
#include "lowering/plan_buffers.h"

namespace mtf {

// Scaled dot product attention as a layer composes it, in 16-bit floats:
//
//   %s = einsum(%q, %k) sum{d}               [batch, heads, length, memory]
//   %w = softmax of %s over memory, where a place may see, in f32
//   %o = einsum(%w, %v) sum{memory}          [batch, length, heads, d]
//
// and its gradient, four more einsums around that of the softmax. A device that
// has fused attention runs each as one kernel and never writes what is of
// length times memory. Backward it needs of forward q, k, v, the output and a
// number per row; those two are kept where the weights would be, which the
// gradient reads and nobody else.
struct AttentionGroup {
  // Instructions, ascending, with nothing between them that runs. `backward` is
  // empty where there is no gradient.
  std::vector<int> forward, backward;
  AttentionProblem problem;  // forward
  // Values; what is scaled counts as q.
  int q = -1, k = -1, v = -1, o = -1;
  int scores = -1, weights = -1;
  int d_o = -1, d_q = -1, d_k = -1, d_v = -1;

  // Where the number per row lies in the memory of the weights, behind the
  // output.
  int64_t stats_offset() const;
  int64_t kept_bytes() const;  // of both
  AttentionProblem BackwardProblem() const;
  // How the two are planned in memory.
  std::vector<FusedGroup> FusedGroups() const;
};

// All of them as PlanBuffersOf takes them.
std::vector<FusedGroup> FusedGroupsOf(
    const std::vector<AttentionGroup>& attention);

}  // namespace mtf

#endif  // LOWERING_ATTENTION_GROUP_H_
