// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_COMPOSED_ATTENTION_H_
#define OPS_COMPOSED_ATTENTION_H_

#include <source_location>

#include "mtf/attention.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf::internal {

// [batch..., length, memory_length]: the dimensions of `q` without d_kv, then
// those of the lengths.
Shape LogitShape(const Shape& q, const Shape& k, const AttentionSpec& spec);

// Attention from einsums, maps and reductions, for devices without an
// instruction for it and for gradients of gradients. Holds all logits. `output`
// is the shape of the output.
AttentionResults<Tensor> ComposedAttention(
    const AttentionSpec& spec, const AttentionOperands<Tensor>& operands,
    const Shape& output, std::source_location location);

// The gradients of the float operands of ComposedAttention from those of its
// results, of which one may be empty.
AttentionGradients<Tensor> ComposedAttentionGradients(
    const AttentionOperands<Tensor>& operands,
    const AttentionResults<Tensor>& results,
    const AttentionResults<Tensor>& gradients);

}  // namespace mtf::internal

#endif  // OPS_COMPOSED_ATTENTION_H_
