// SPDX-License-Identifier: Apache-2.0
//
// Attention layers that change logits or weights between the products with
// queries and values. They hold the logits [batch..., heads, length,
// memory_length], unlike SelfAttention, whose memory is linear in the length.
//
// `x` is [batch..., length, d_model]. With a `memory` [batch...,
// memory_length, d_memory] the layers attend to it; without, to `x`. They
// take the options .length, .memory_length, .heads, .d_kv, .causal, .dropout,
// .bias, .mask, .position_bias, .window, .soft_cap, .scale, .each and .name of
// attention, and any layout. They record kInvalidArgument in the graph for the
// errors of MultiHeadAttention, and if .groups or .rotary is set, and return an
// empty Tensor if `x` is empty.
#ifndef NN_ATTENTION_TALKING_HEADS_ATTENTION_H_
#define NN_ATTENTION_TALKING_HEADS_ATTENTION_H_

#include <source_location>

#include "mtf/dimension.h"
#include "mtf/tensor.h"
#include "nn/attention/attention.h"

namespace mtf::nn {

struct TalkingHeadsOptions {
  // The heads of queries and keys, which a parameter "logit_heads"/kernel
  // [key_heads, heads] mixes to those of the softmax. Without a name: no
  // mixing.
  Dimension key_heads = Dimension();
  // The heads of the values, to which "weight_heads"/kernel [heads,
  // value_heads] mixes the weights. Without a name: no mixing.
  Dimension value_heads = Dimension();
  // Adds mixing kernels that are linear functions of the position of the query
  // and of the key, with initial variance dynamic_scale / their fan-in (section
  // 4 of the paper).
  bool dynamic_queries = false, dynamic_keys = false;
  double dynamic_scale = 1e-2;
};

// Talking-heads attention (Shazeer et al., 2020): heads exchange logits before
// the softmax and weights after it.
//
//   logits[h]   = sum over key_heads of q k * kernel[key_heads, h]
//   weights[v]  = sum over h of softmax(logits)[h] * kernel[h, value_heads]
//
//   x = x + nn::TalkingHeadsAttention(
//       x, {.length = length, .heads = heads, .d_kv = d_kv},
//       {.key_heads = {"key_heads", 8}, .value_heads = {"value_heads", 8}});
//
// A rule for `heads` shards the softmax; add a further dimension of heads to
// shard all three, as the paper does.
Tensor TalkingHeadsAttention(
    Tensor x, AttentionOptions options, TalkingHeadsOptions heads,
    Tensor memory = {},
    std::source_location location = std::source_location::current());

// Attention without projections of keys and values: each head is a bilinear
// form of x and memory (section 7 of the same paper), as if d_kv were d_model.
//
//   logits = (x query) memory;  y = sum over heads of (weights memory) output
//
//   x = x + nn::BilinearAttention(x, {.length = length, .heads = heads});
//
// `x` and memory have the same model dimension. .d_kv is ignored.
Tensor BilinearAttention(
    Tensor x, AttentionOptions options, Tensor memory = {},
    std::source_location location = std::source_location::current());

// Attention with weights that are normalized over queries, then over keys,
// mixed with those of the softmax over keys (hybrid of doubly-normalized
// attention, Ding et al., 2020):
//
//   weights = u * softmax over keys of (log softmax over queries of logits)
//             + (1 - u) * softmax over keys of logits
//
//   x = x + nn::HybridAttention(x, {.length = length, .heads = heads,
//                                   .d_kv = d_kv});
//
// u is a parameter "mix" of each head, initially 0.5, within [0, 1]. (Mesh
// TensorFlow has one for all heads.) Every key keeps some weight of a query, so
// no word is explained away. Not for causal attention: the sum over queries
// sees later ones, so .causal is an error.
Tensor HybridAttention(
    Tensor x, AttentionOptions options, Tensor memory = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_ATTENTION_TALKING_HEADS_ATTENTION_H_
