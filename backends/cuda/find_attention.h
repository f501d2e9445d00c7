// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_FIND_ATTENTION_H_
#define BACKENDS_CUDA_FIND_ATTENTION_H_

#include <functional>
#include <vector>

#include "backends/cuda/runtime.h"
#include "lowering/plan_buffers.h"
#include "lowering/program.h"

namespace mtf::cuda {

// Scaled dot product attention as a layer composes it, in 16-bit floats:
//
//   %s = einsum(%q, %k) sum{d}               [batch, heads, length, memory]
//   %w = softmax of %s over memory, where a place may see, in f32
//   %o = einsum(%w, %v) sum{memory}          [batch, length, heads, d]
//
// and its gradient, four more einsums around that of the softmax. cuDNN runs
// each as one kernel and never writes what is of length times memory. Backward
// it needs of forward q, k, v, the output and a number per row; those two are
// kept where the weights would be, which the gradient reads and nobody else.
struct AttentionGroup {
  // Instructions, ascending, with nothing between them that runs. `backward` is
  // empty where there is no gradient.
  std::vector<int> forward, backward;
  AttentionProblem problem;  // forward
  // Values; what is scaled counts as q.
  int q = -1, k = -1, v = -1, o = -1;
  int weights = -1;
  int d_o = -1, d_q = -1, d_k = -1, d_v = -1;

  // Where the number per row lies in the memory of the weights, behind the
  // output.
  int64_t stats_offset() const;
  int64_t kept_bytes() const;  // of both
  AttentionProblem BackwardProblem() const;
  // How the two are planned in memory.
  std::vector<FusedGroup> FusedGroups() const;
};

// Those that are whole on a device in length, memory and d, whose values nobody
// else reads, and of which `accepts` takes both
// problems. They share no instruction, nor one that is `taken`.
std::vector<AttentionGroup> FindAttention(
    const Program& program, const std::vector<bool>& taken,
    const std::function<bool(const AttentionProblem&)>& accepts);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_FIND_ATTENTION_H_
