// SPDX-License-Identifier: Apache-2.0
#ifndef NN_ATTENTION_BRANCHED_ATTENTION_H_
#define NN_ATTENTION_BRANCHED_ATTENTION_H_

#include <source_location>

#include "mtf/dimension.h"
#include "mtf/tensor.h"
#include "nn/attention/attention.h"
#include "nn/layers/activations.h"

namespace mtf::nn {

// Attention and feed-forward layer in one, with a branch for each head
// (weighted transformer, Ahmed et al., 2017):
//
//   y = sum over heads of alpha[h] * FeedForward(kappa[h] * head[h] output[h])
//
// where head[h] is the result of attention of a head, and kappa and alpha are
// softmaxes over heads of the parameters "kappa" and "alpha", initially 0, so
// that they are positive and add up to 1 in every step. (The paper and Mesh
// TensorFlow project them after each update.) All branches share the
// feed-forward layer.
//
//   x = x + nn::BranchedAttention(x, d_ff, Relu, {.length = length,
//       .heads = heads, .d_kv = d_kv});
//
// With a `memory`, attends to it. Takes the options of MultiHeadAttention but
// .groups, and records its errors and those of FeedForward. Returns an empty
// Tensor if `x` is empty.
Tensor BranchedAttention(
    Tensor x, Dimension d_ff, Activation activation, AttentionOptions options,
    Tensor memory = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_ATTENTION_BRANCHED_ATTENTION_H_
