// SPDX-License-Identifier: Apache-2.0
#ifndef NN_MODELS_BERT_H_
#define NN_MODELS_BERT_H_

#include <cstdint>
#include <source_location>
#include <string>

#include "absl/status/statusor.h"
#include "mtf/tensor.h"
#include "nn/models/config_fields.h"
#include "nn/models/weight_map.h"

namespace mtf::nn {

// The fields of BERT's config.json, with those of the base model.
struct BertConfig {
  int64_t vocab_size = 30522;
  int64_t hidden_size = 768;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t intermediate_size = 3072;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  int64_t max_position_embeddings = 512;
  int64_t type_vocab_size = 2;
  double layer_norm_eps = 1e-12;
};

// kInvalidArgument for a missing or wrong field, or one whose value is not
// supported.
absl::StatusOr<BertConfig> ReadBertConfig(ConfigFields fields);

struct BertInputs {
  Tensor tokens = Tensor();  // integers [batch..., length]
  // Integers with the same dimensions: which sentence a token is of. Empty: 0.
  Tensor token_types = Tensor();
  // Bool with the same dimensions: true where a token is not padding. Empty:
  // all are tokens.
  Tensor mask = Tensor();
};

struct BertOutputs {
  Tensor hidden;  // [batch..., length, d_model]
  Tensor pooled;  // [batch..., d_model], a function of the first token
  // The heads for pre-training: the words of masked tokens, [batch..., length,
  // vocab], and whether the second sentence does not follow the first,
  // [batch..., next_sentence:2].
  Tensor token_logits, next_sentence_logits;
};

// BERT (Devlin et al., 2019) with its heads for pre-training: an encoder with
// learned positions, norms after sublayers, GELU and biases. Dimensions are
// d_model, heads, d_kv, d_ff, vocab, token_types, and "positions" of the table
// if there are more than tokens.
//
// Records kInvalidArgument in the graph for inputs that are not as above, and
// the errors of the layers.
BertOutputs Bert(
    const BertInputs& inputs, const BertConfig& config,
    std::source_location location = std::source_location::current());

// The sum of the losses of both heads: the mean over `targets` [batch...,
// length] that are not negative, and over `next_sentences` [batch...], which
// may be empty.
Tensor BertPretrainingLoss(
    const BertOutputs& outputs, Tensor targets, Tensor next_sentences = {},
    std::source_location location = std::source_location::current());

// The weights of BertForPreTraining.
WeightMap BertWeights(const BertConfig& config);

}  // namespace mtf::nn

#endif  // NN_MODELS_BERT_H_
