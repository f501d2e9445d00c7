// SPDX-License-Identifier: Apache-2.0
#ifndef NN_MODELS_GPT2_H_
#define NN_MODELS_GPT2_H_

#include <cstdint>
#include <source_location>
#include <string>

#include "absl/status/statusor.h"
#include "mtf/tensor.h"
#include "nn/models/config_fields.h"
#include "nn/models/language_model.h"
#include "nn/models/weight_map.h"

namespace mtf::nn {

// The fields of GPT-2's config.json, with those of the smallest model.
struct Gpt2Config {
  int64_t vocab_size = 50257;
  int64_t n_positions = 1024;
  int64_t n_embd = 768;
  int64_t n_layer = 12;
  int64_t n_head = 12;
  int64_t n_inner = 0;  // 0: 4 * n_embd
  std::string activation_function = "gelu_new";
  double layer_norm_epsilon = 1e-5;
  double embd_pdrop = 0.1, attn_pdrop = 0.1, resid_pdrop = 0.1;
  bool tie_word_embeddings = true;
  // Not of GPT-2: a mixture of so many experts, of which a token takes two, in
  // place of each feed-forward layer.
  int64_t experts = 1;
  // Not of GPT-2: trainable vectors before the tokens (nn/layers/prompt.h).
  int64_t prompt_length = 0;
};

// kInvalidArgument for a missing or wrong field, or one whose value is not
// supported.
absl::StatusOr<Gpt2Config> ReadGpt2Config(ConfigFields fields);

// GPT-2 (Radford et al., 2019): learned positions, norms before sublayers,
// GELU, biases, and one table for embedding and head. `tokens` are integers
// [batch..., length] with at most n_positions positions, those of the prompt
// included. Dimensions: d_model, heads, d_kv, d_ff, vocab; and "positions" of
// the table if there are more than tokens.
//
//   const nn::LanguageModel model = nn::Gpt2(tokens, config);
//   Tensor loss = nn::LanguageModelLoss(model, targets);
//
// Records kInvalidArgument in the graph for sizes that do not fit together, and
// the errors of the layers.
LanguageModel Gpt2(
    Tensor tokens, const Gpt2Config& config,
    std::source_location location = std::source_location::current());

// The weights of GPT2LMHeadModel. Experts have none.
WeightMap Gpt2Weights(const Gpt2Config& config);

}  // namespace mtf::nn

#endif  // NN_MODELS_GPT2_H_
