// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_ATTENTION_H_
#define OPS_ATTENTION_H_

#include <source_location>

#include "mtf/attention.h"
#include "mtf/tensor.h"

namespace mtf {

// Attention of queries to keys and values, as AttentionSpec (mtf/attention.h)
// defines it. Layers use nn::DotProductAttention, which fills in the spec.
//
//   q   [batch..., length, d_kv]
//   k   [batch..., memory_length, d_kv]
//   v   [batch..., memory_length, d_v]
//
//   AttentionResults<Tensor> y = Attention(
//       {.q = q, .k = k, .v = v},
//       {.length = "length", .memory_length = "memory_length", .d_kv = "d_kv",
//        .d_v = "d_kv", .scale = 0.125, .causal = true});
//
// The output has the shape of q with d_v in the place of d_kv; the logsumexp is
// f32 with the dimensions of q without d_kv, length last. The CPU computes both
// and their gradients block by block and holds no logits, and so do fused
// kernels of GPUs (lowering/program/fused_attention.h); what a device has no
// kernel for is composed of einsums and a softmax. The call sets `spec.stream`,
// and no dropout in a graph for evaluation (ModeScope).
//
// Records kInvalidArgument in the graph if
//   * one of q, k, v is empty or belongs to another graph, or their dtypes are
//     not the same float dtype;
//   * q lacks length or d_kv, k lacks memory_length or d_kv, or v lacks
//     memory_length or d_v; a name has two sizes;
//   * q has memory_length, k or v has length, or q lacks a dimension of k or v
//     other than memory_length and d_v;
//   * v has d_kv, or q or k has d_v, if these have different names;
//   * the mask is not bool, the bias or the extra logit not float, the offset
//     not i32, or one of them has a dimension that it cannot have;
//   * scale is not finite, soft_cap is negative or not finite, the window is
//     negative, or dropout is outside [0, 1).
// Returns empty Tensors if q, k and v are empty.
AttentionResults<Tensor> Attention(
    const AttentionOperands<Tensor>& operands, AttentionSpec spec,
    std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_ATTENTION_H_
