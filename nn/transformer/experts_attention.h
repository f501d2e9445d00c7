// SPDX-License-Identifier: Apache-2.0
#ifndef NN_TRANSFORMER_EXPERTS_ATTENTION_H_
#define NN_TRANSFORMER_EXPERTS_ATTENTION_H_

#include <source_location>

#include "mtf/dimension.h"
#include "mtf/tensor.h"
#include "nn/attention/attention.h"
#include "nn/experts/experts.h"

namespace mtf::nn {

// Self-attention whose queries, and keys that also are the values, are linear
// functions of experts that a router chooses for each token (experts attention,
// Fedus et al., 2021, appendix A). A token without an expert has a query, key
// and value of 0.
//
//   const nn::Experts y = nn::ExpertsAttention(
//       nn::LayerNorm(x, d_model), {"experts", 8},
//       {.length = length, .heads = heads, .d_kv = d_kv, .causal = true},
//       {.choices = 1});
//   x = x + y.output;
//
// `x` is [batch..., length, d_model]. Takes the options of SelfAttention but
// .groups, .rotary, .d_v, .bias and .each, which are errors, and those of
// MixtureOfExperts, whose losses and statistics the result has. Returns empty
// Tensors if `x` is empty.
Experts ExpertsAttention(
    Tensor x, Dimension experts, AttentionOptions options,
    ExpertsOptions routing = ExpertsOptions(),
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_TRANSFORMER_EXPERTS_ATTENTION_H_
