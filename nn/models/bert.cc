// SPDX-License-Identifier: Apache-2.0
#include "nn/models/bert.h"

#include <utility>
#include <vector>

#include "nn/layers/dense.h"
#include "nn/layers/embedding.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_norm.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "nn/losses/cross_entropy.h"
#include "nn/models/language_model.h"
#include "nn/models/model_parts.h"
#include "nn/models/transformer.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/random.h"
#include "ops/reshape.h"

namespace mtf::nn {
namespace {

constexpr char kNextSentence[] = "next_sentence";

absl::Status CheckBert(const BertInputs& inputs, const BertConfig& config) {
  MTF_RETURN_IF_ERROR(CheckTokens(inputs.tokens, "max_position_embeddings",
                                  config.max_position_embeddings));
  Graph& graph = inputs.tokens.graph();
  for (Tensor x : {inputs.token_types, inputs.mask}) {
    if (!x.valid()) continue;
    MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(graph, {inputs.tokens, x}));
  }
  return CheckDivides("num_attention_heads", config.num_attention_heads,
                      "hidden_size", config.hidden_size);
}

// The sum of the embeddings of words, positions and token types, normalized.
Tensor BertEmbeddings(const BertInputs& inputs, const BertConfig& config,
                      const Dimension& d_model, Tensor word_embeddings) {
  Graph& graph = inputs.tokens.graph();
  const Dimension length = LastDimension(inputs.tokens),
                  positions{"positions", config.max_position_embeddings},
                  types{"token_types", config.type_vocab_size};
  Tensor x = Embedding(inputs.tokens, {"vocab", config.vocab_size}, d_model,
                       {.table = word_embeddings});
  const Tensor token_types = inputs.token_types.valid()
                                 ? inputs.token_types
                                 : Zeros(graph, kInt32, inputs.tokens.shape());
  x = x + Embedding(token_types, types, d_model,
                    {.stddev = 0.02, .name = "token_type_embedding"});
  x = PositionEmbedding(
      x, length, d_model,
      {.rows = positions.size == length.size ? Dimension() : positions});
  x = LayerNorm(x, d_model, {.epsilon = config.layer_norm_eps});
  return Dropout(x, config.hidden_dropout_prob);
}

// Logits of the words of masked tokens, by the table of the embedding.
Tensor PredictTokens(Tensor hidden, const BertConfig& config,
                     const Dimension& d_model, const Activation& activation,
                     Tensor word_embeddings) {
  Graph& graph = hidden.graph();
  const Dimension vocab{"vocab", config.vocab_size};
  Tensor x = Dense(hidden, {d_model}, {d_model},
                   {.activation = activation, .name = "dense_transform"});
  x = LayerNorm(x, d_model,
                {.epsilon = config.layer_norm_eps, .name = "transform_norm"});
  x = LanguageModelLogits({x, word_embeddings, vocab, {}});
  const LayerScope layer(graph, "dense_predictions",
                         std::source_location::current());
  return x +
         Parameter(graph, "bias", Zeros(graph, kFloat32, {vocab}), x.dtype());
}

BertOutputs FailedBert(const BertInputs& inputs, const absl::Status& status,
                       std::source_location location) {
  const LanguageModel model =
      FailedModel(inputs.tokens, status, "bert", location);
  return {model.hidden, model.hidden, model.hidden, model.hidden};
}

}  // namespace

absl::StatusOr<BertConfig> ReadBertConfig(ConfigFields fields) {
  BertConfig config;
  config.vocab_size = fields.Size("vocab_size");
  config.hidden_size = fields.Size("hidden_size");
  config.num_hidden_layers = fields.Layers("num_hidden_layers");
  config.num_attention_heads = fields.Size("num_attention_heads");
  config.intermediate_size = fields.Size("intermediate_size");
  config.hidden_act = fields.Text("hidden_act", config.hidden_act);
  config.hidden_dropout_prob = fields.Number("hidden_dropout_prob", 0.1);
  config.attention_probs_dropout_prob =
      fields.Number("attention_probs_dropout_prob", 0.1);
  config.max_position_embeddings = fields.Size("max_position_embeddings", 512);
  config.type_vocab_size = fields.Size("type_vocab_size", 2);
  config.layer_norm_eps = fields.Epsilon("layer_norm_eps", 1e-12);
  fields.Require("position_embedding_type", "absolute");
  fields.Require("is_decoder", "false");
  fields.Require("add_cross_attention", "false");
  fields.Require("tie_word_embeddings", "true");
  MTF_RETURN_IF_ERROR(fields.status());
  MTF_RETURN_IF_ERROR(ActivationOf(config.hidden_act).status());
  MTF_RETURN_IF_ERROR(CheckDivides("num_attention_heads",
                                   config.num_attention_heads, "hidden_size",
                                   config.hidden_size));
  return config;
}

BertOutputs Bert(const BertInputs& inputs, const BertConfig& config,
                 std::source_location location) {
  if (!inputs.tokens.valid()) return {};
  Graph& graph = inputs.tokens.graph();
  const CallSiteScope site(graph, location);
  absl::Status status = CheckBert(inputs, config);
  const auto activation = ActivationOf(config.hidden_act);
  if (status.ok()) status = activation.status();
  if (!status.ok()) return FailedBert(inputs, status, location);

  const Dimension length = LastDimension(inputs.tokens),
                  vocab{"vocab", config.vocab_size},
                  d_model{"d_model", config.hidden_size},
                  d_ff{"d_ff", config.intermediate_size};
  const int64_t heads = config.num_attention_heads;
  const Tensor word_embeddings =
      EmbeddingTable(graph, vocab, d_model, {.stddev = 0.02});
  const Tensor x = BertEmbeddings(inputs, config, d_model, word_embeddings);

  const Transformer encoder = TransformerStack(
      x,
      {.layers = config.num_hidden_layers,
       .attention = {.length = length,
                     .heads = {"heads", heads},
                     .d_kv = {"d_kv", config.hidden_size / heads},
                     .dropout = config.attention_probs_dropout_prob,
                     .bias = true,
                     .mask = Rename(inputs.mask, length.name, "memory_length")},
       .d_ff = d_ff,
       .activation = *activation,
       .feed_forward = {.bias = true},
       .residual = {.norm = {.epsilon = config.layer_norm_eps},
                    .position = NormPosition::kAfter,
                    .dropout = config.hidden_dropout_prob},
       .final_norm = false});

  BertOutputs outputs;
  outputs.hidden = encoder.output;
  outputs.pooled = Dense(
      Index(outputs.hidden, length.name, 0), {d_model}, {d_model},
      {.activation = [](Tensor y) { return Tanh(y); }, .name = "dense_pooler"});
  outputs.token_logits = PredictTokens(outputs.hidden, config, d_model,
                                       *activation, word_embeddings);
  outputs.next_sentence_logits =
      Dense(outputs.pooled, {d_model}, {{kNextSentence, 2}},
            {.name = "dense_next_sentence"});
  return outputs;
}

Tensor BertPretrainingLoss(const BertOutputs& outputs, Tensor targets,
                           Tensor next_sentences,
                           std::source_location location) {
  if (!outputs.token_logits.valid()) return {};
  const Tensor loss = SoftmaxCrossEntropy(
      outputs.token_logits, LastDimension(outputs.token_logits), targets,
      {.weights = targets >= 0.0}, location);
  if (!next_sentences.valid()) return loss;
  return loss + SoftmaxCrossEntropy(outputs.next_sentence_logits,
                                    {kNextSentence, 2}, next_sentences,
                                    {.name = "next_sentence_loss"}, location);
}

WeightMap BertWeights(const BertConfig&) {
  WeightMap map;
  map.prefix = "bert.";
  const auto norm = [&](const std::string& ours, const std::string& theirs) {
    map.rules.push_back({ours + "/scale", theirs + ".weight"});
    map.rules.push_back({ours + "/bias", theirs + ".bias"});
  };
  // Kernels of linear layers are out x in.
  const auto linear = [&](const std::string& ours, const std::string& theirs,
                          const std::string& dims,
                          const std::string& bias = "") {
    map.rules.push_back({ours + "/kernel", theirs + ".weight", dims});
    map.rules.push_back({ours + "/bias", theirs + ".bias", bias});
  };
  const std::string embeddings = "embeddings.", ours = "layer_*/",
                    theirs = "encoder.layer.*.";
  map.rules = {
      {"embedding/table", embeddings + "word_embeddings.weight"},
      {"position_embedding/table", embeddings + "position_embeddings.weight"},
      {"token_type_embedding/table",
       embeddings + "token_type_embeddings.weight"}};
  norm("layer_norm", embeddings + "LayerNorm");
  for (const char* layer : {"query", "key", "value"}) {
    const std::string name = layer;
    linear(ours + "attention/" + name, theirs + "attention.self." + name,
           "(heads d_kv) d_model", "(heads d_kv)");
  }
  linear(ours + "attention/output", theirs + "attention.output.dense",
         "d_model (heads d_kv)");
  norm(ours + "layer_norm", theirs + "attention.output.LayerNorm");
  linear(ours + "feed_forward/in", theirs + "intermediate.dense",
         "d_ff d_model");
  linear(ours + "feed_forward/out", theirs + "output.dense", "d_model d_ff");
  norm(ours + "layer_norm_1", theirs + "output.LayerNorm");
  linear("dense_pooler", "pooler.dense", "d_model d_model_in");
  linear("dense_transform", "/cls.predictions.transform.dense",
         "d_model d_model_in");
  norm("transform_norm", "/cls.predictions.transform.LayerNorm");
  map.rules.push_back({"dense_predictions/bias", "/cls.predictions.bias"});
  linear("dense_next_sentence", "/cls.seq_relationship",
         "next_sentence d_model");
  // Names of files that were converted from TensorFlow.
  map.renamed_ends = {{"LayerNorm.gamma", "LayerNorm.weight"},
                      {"LayerNorm.beta", "LayerNorm.bias"}};
  map.ignored = {"embeddings.position_ids"};
  map.copies = {
      {"/cls.predictions.decoder.weight", "embeddings.word_embeddings.weight"},
      {"/cls.predictions.decoder.bias", "/cls.predictions.bias"}};
  return map;
}

}  // namespace mtf::nn
