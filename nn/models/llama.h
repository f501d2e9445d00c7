// SPDX-License-Identifier: Apache-2.0
#ifndef NN_MODELS_LLAMA_H_
#define NN_MODELS_LLAMA_H_

#include <cstdint>
#include <source_location>
#include <string>

#include "absl/status/statusor.h"
#include "mtf/tensor.h"
#include "nn/attention/rotary.h"
#include "nn/models/config_fields.h"
#include "nn/models/language_model.h"
#include "nn/models/weight_map.h"

namespace mtf::nn {

// The fields of config.json of Llama 2 and 3, Mistral and Mixtral, with those
// of Llama 2 7B.
struct LlamaConfig {
  int64_t vocab_size = 32000;
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 11008;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  int64_t num_key_value_heads = 0;  // 0: num_attention_heads
  int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  std::string hidden_act = "silu";
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  RotaryScaling rope_scaling = {};  // Llama 3.1 and later
  int64_t sliding_window = 0;       // Mistral; 0: none
  double attention_dropout = 0;
  bool attention_bias = false;
  bool mlp_bias = false;
  bool tie_word_embeddings = false;
  // Mixtral: experts in place of the feed-forward layers, and how many of them
  // a token takes. 0: none.
  int64_t num_local_experts = 0;
  int64_t num_experts_per_tok = 2;
  double router_jitter_noise = 0;
  // Of the loss that balances experts. transformers computes one loss from the
  // choices of all layers, if output_router_logits is set. BuildModel always
  // takes the mean of the layers' losses, as strong where experts are balanced.
  double router_aux_loss_coef = 0.001;
  // Not of Llama: trainable vectors before the tokens (nn/layers/prompt.h).
  int64_t prompt_length = 0;
};

// kInvalidArgument for a missing or wrong field, or one whose value is not
// supported. The field model_type selects the defaults of "llama", "mistral"
// and "mixtral".
absl::StatusOr<LlamaConfig> ReadLlamaConfig(ConfigFields fields);

// Llama (Touvron et al., 2023; Llama team, 2024), Mistral 7B (Jiang et al.,
// 2023) and Mixtral (Jiang et al., 2024): rotary positions, RMS norms before
// sublayers, SwiGLU, no biases. `tokens` are integers [batch..., length].
//
// Dimensions are d_model, heads, d_kv, d_ff, vocab and experts. With grouped
// queries, "heads" are those of keys and values, and each has "group_heads"
// heads of queries: a rule for heads shards all projections, as in Megatron-LM.
//
// A token of Mixtral takes its best experts with weights that add up to 1; no
// token is dropped, since each expert has a slot for every token of a sequence.
// LanguageModel::experts has the losses that balance them.
//
// Records kInvalidArgument in the graph for sizes that do not fit together, and
// the errors of the layers.
LanguageModel Llama(
    Tensor tokens, const LlamaConfig& config,
    std::source_location location = std::source_location::current());

// The weights of LlamaForCausalLM, MistralForCausalLM and MixtralForCausalLM.
WeightMap LlamaWeights(const LlamaConfig& config);

}  // namespace mtf::nn

#endif  // NN_MODELS_LLAMA_H_
