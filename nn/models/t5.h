// SPDX-License-Identifier: Apache-2.0
#ifndef NN_MODELS_T5_H_
#define NN_MODELS_T5_H_

#include <cstdint>
#include <source_location>
#include <string>

#include "absl/status/statusor.h"
#include "mtf/tensor.h"
#include "nn/models/config_fields.h"
#include "nn/models/language_model.h"
#include "nn/models/weight_map.h"

namespace mtf::nn {

// The fields of T5's config.json, with those of the small model.
struct T5Config {
  int64_t vocab_size = 32128;
  int64_t d_model = 512;
  int64_t d_kv = 64;
  int64_t d_ff = 2048;
  int64_t num_layers = 6;          // of the encoder
  int64_t num_decoder_layers = 0;  // 0: num_layers
  int64_t num_heads = 8;
  int64_t relative_attention_num_buckets = 32;
  int64_t relative_attention_max_distance = 128;
  double dropout_rate = 0.1;
  double layer_norm_epsilon = 1e-6;
  std::string feed_forward_proj = "relu";  // "gated-gelu" in version 1.1
  bool tie_word_embeddings = true;         // false in version 1.1
  // Whether the result of the decoder is multiplied by d_model^-0.5 before its
  // logits, as where embeddings are tied.
  bool scale_decoder_outputs = true;
  int64_t decoder_start_token_id = 0;
  // Not of T5: trainable vectors before the tokens of the encoder
  // (nn/layers/prompt.h).
  int64_t prompt_length = 0;
};

// kInvalidArgument for a missing or wrong field, or one whose value is not
// supported.
absl::StatusOr<T5Config> ReadT5Config(ConfigFields fields);

// T5 (Raffel et al., 2020) and its version 1.1: an encoder of `tokens` and a
// decoder, with relative positions that the layers of a stack share, RMS norms
// before sublayers, no biases, and attention that is not scaled.
//
//   // tokens [batch, length], targets [batch, length] of another size
//   const nn::LanguageModel model =
//       nn::T5(tokens, nn::ShiftRight(targets), config);
//   Tensor loss = nn::LanguageModelLoss(model, targets);
//
// Both lengths may have one name; the encoder's result has "memory_length" in
// its place. `mask`, a bool with the dimensions of `tokens`, is true where a
// token is not padding; empty, all are tokens. Other dimensions are d_model,
// heads, d_kv, d_ff and vocab.
//
// Records kInvalidArgument in the graph if an operand is not as above, and the
// errors of the layers.
LanguageModel T5(
    Tensor tokens, Tensor decoder_tokens, const T5Config& config,
    Tensor mask = {},
    std::source_location location = std::source_location::current());

// The weights of T5ForConditionalGeneration.
WeightMap T5Weights(const T5Config& config);

}  // namespace mtf::nn

#endif  // NN_MODELS_T5_H_
