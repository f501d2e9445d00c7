// SPDX-License-Identifier: Apache-2.0
#include "nn/models/t5.h"

#include <cmath>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "mtf/errors.h"
#include "nn/layers/embedding.h"
#include "nn/models/model_parts.h"
#include "nn/models/transformer.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/pad.h"
#include "ops/random.h"
#include "ops/reshape.h"

namespace mtf::nn {
namespace {

constexpr char kMemory[] = "memory_length";

bool IsGated(const T5Config& config) {
  return absl::StartsWith(config.feed_forward_proj, "gated-");
}

// "relu" of "relu", and GELU by its tanh approximation of "gated-gelu".
absl::StatusOr<Activation> T5Activation(const T5Config& config) {
  if (config.feed_forward_proj == "gated-gelu") return ActivationOf("gelu_new");
  return ActivationOf(absl::StripPrefix(config.feed_forward_proj, "gated-"));
}

absl::Status CheckT5(Tensor tokens, Tensor decoder_tokens, Tensor mask,
                     const T5Config& config) {
  MTF_RETURN_IF_ERROR(CheckTokens(tokens, "", 0, config.prompt_length));
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckInputs(tokens.graph(), {tokens, decoder_tokens}));
  MTF_RETURN_IF_ERROR(CheckTokens(decoder_tokens));
  if (!mask.valid()) return absl::OkStatus();
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckInputs(tokens.graph(), {tokens, mask}));
  if (mask.dtype() == kBool && mask.shape().SameDimensions(tokens.shape())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the mask must be bool with the dimensions of the tokens",
                   DescribeInputs({tokens, mask})));
}

// The options of the encoder of `length`; those of the decoder differ by masks.
TransformerOptions T5Stack(const T5Config& config, const Dimension& length,
                           bool is_decoder, const Activation& activation) {
  const AttentionOptions attention = {.length = length,
                                      .heads = {"heads", config.num_heads},
                                      .d_kv = {"d_kv", config.d_kv},
                                      .causal = is_decoder,
                                      .dropout = config.dropout_rate,
                                      .scale = 1};
  TransformerOptions options;
  options.layers = is_decoder && config.num_decoder_layers > 0
                       ? config.num_decoder_layers
                       : config.num_layers;
  options.attention = attention;
  options.memory_attention = {.dropout = config.dropout_rate, .scale = 1};
  options.d_ff = {"d_ff", config.d_ff};
  options.activation = activation;
  options.feed_forward = {.gated = IsGated(config),
                          .dropout = config.dropout_rate};
  options.residual = {.norm = {.kind = NormKind::kRmsNorm,
                               .epsilon = config.layer_norm_epsilon},
                      .dropout = config.dropout_rate};
  options.dropout = config.dropout_rate;
  options.relative_positions = RelativePositionOptions{
      .buckets = config.relative_attention_num_buckets,
      .max_distance = config.relative_attention_max_distance,
      .bidirectional = !is_decoder};
  return options;
}

}  // namespace

absl::StatusOr<T5Config> ReadT5Config(ConfigFields fields) {
  T5Config config;
  config.vocab_size = fields.Size("vocab_size");
  config.d_model = fields.Size("d_model");
  config.d_kv = fields.Size("d_kv");
  config.d_ff = fields.Size("d_ff");
  config.num_layers = fields.Layers("num_layers");
  config.num_decoder_layers =
      fields.Layers("num_decoder_layers", config.num_layers);
  config.num_heads = fields.Size("num_heads");
  config.relative_attention_num_buckets =
      fields.Size("relative_attention_num_buckets", 32);
  config.relative_attention_max_distance =
      fields.Size("relative_attention_max_distance", 128);
  config.dropout_rate = fields.Number("dropout_rate", 0.1);
  config.layer_norm_epsilon = fields.Epsilon("layer_norm_epsilon", 1e-6);
  config.feed_forward_proj = fields.Text("feed_forward_proj", "relu");
  config.tie_word_embeddings = fields.Flag("tie_word_embeddings", true);
  config.scale_decoder_outputs =
      fields.Flag("scale_decoder_outputs", config.tie_word_embeddings);
  config.decoder_start_token_id = fields.Integer("decoder_start_token_id", 0);
  fields.Require("is_encoder_decoder", "true");
  fields.Require("is_decoder", "false");
  // What `transformers` writes beside feed_forward_proj.
  fields.Require("is_gated_act", IsGated(config) ? "true" : "false");
  fields.Require("dense_act_fn",
                 config.feed_forward_proj == "gated-gelu"
                     ? "gelu_new"
                     : absl::StripPrefix(config.feed_forward_proj, "gated-"));
  MTF_RETURN_IF_ERROR(fields.status());
  MTF_RETURN_IF_ERROR(T5Activation(config).status());
  return config;
}

LanguageModel T5(Tensor tokens, Tensor decoder_tokens, const T5Config& config,
                 Tensor mask, std::source_location location) {
  if (!tokens.valid()) return {};
  Graph& graph = tokens.graph();
  const CallSiteScope site(graph, location);
  absl::Status status = CheckT5(tokens, decoder_tokens, mask, config);
  const auto activation = T5Activation(config);
  if (status.ok()) status = activation.status();
  if (!status.ok()) return FailedModel(tokens, status, "t5", location);

  // That of the encoder's input, with its prompt.
  const Dimension length =
                      WithPrompt(LastDimension(tokens), config.prompt_length),
                  decoder_length = LastDimension(decoder_tokens),
                  vocab{"vocab", config.vocab_size},
                  d_model{"d_model", config.d_model};
  const Tensor shared = EmbeddingTable(graph, vocab, d_model, {.stddev = 1});
  const auto embed = [&](Tensor of, int64_t prompt_length) {
    const Tensor x =
        PromptedEmbedding(of, shared, vocab, d_model, prompt_length);
    return config.dropout_rate == 0 ? x : Dropout(x, config.dropout_rate);
  };

  TransformerOptions encoder = T5Stack(config, length, false, *activation),
                     decoder =
                         T5Stack(config, decoder_length, true, *activation);
  if (mask.valid()) {
    // No position of the prompt is padding.
    if (config.prompt_length > 0) {
      mask = Pad(mask, length.name, config.prompt_length, 0, 1);
    }
    mask = Rename(mask, length.name, kMemory);
  }
  encoder.attention.mask = decoder.memory_attention.mask = mask;
  decoder.memory_attention.memory_length = {kMemory, length.size};

  Tensor encoded;
  {
    const Scope scope(graph, "encoder");
    encoded =
        TransformerStack(embed(tokens, config.prompt_length), encoder).output;
  }
  Tensor x;
  {
    const Scope scope(graph, "decoder");
    const Tensor memory = Rename(encoded, length.name, kMemory);
    x = TransformerStack(embed(decoder_tokens, 0), decoder, memory).output;
  }
  if (config.scale_decoder_outputs) {
    x = x * (1 / std::sqrt(static_cast<double>(config.d_model)));
  }
  const Tensor lm_head = config.tie_word_embeddings
                             ? shared
                             : HeadKernel(graph, d_model, vocab, 1);
  return {x, lm_head, vocab, {}};
}

WeightMap T5Weights(const T5Config& config) {
  WeightMap map;
  map.rules = {{"embedding/table", "shared.weight"},
               {"head/kernel", "lm_head.weight", "vocab d_model"}};
  // Kernels of linear layers are out x in.
  const auto attention = [&](const std::string& ours,
                             const std::string& theirs) {
    constexpr const char* kLayers[][2] = {
        {"query", "q"}, {"key", "k"}, {"value", "v"}};
    for (const auto& [layer, linear] : kLayers) {
      map.rules.push_back({absl::StrCat(ours, layer, "/kernel"),
                           absl::StrCat(theirs, linear, ".weight"),
                           "(heads d_kv) d_model"});
    }
    map.rules.push_back(
        {ours + "output/kernel", theirs + "o.weight", "d_model (heads d_kv)"});
  };
  for (const bool is_decoder : {false, true}) {
    const absl::string_view stack = is_decoder ? "decoder" : "encoder";
    const std::string ours = absl::StrCat(stack, "/layer_*/"),
                      block = absl::StrCat(stack, ".block.*.layer.");
    const auto rule = [&](const std::string& parameter,
                          const std::string& tensor, const char* dims = "") {
      map.rules.push_back({parameter, tensor, dims});
    };
    rule(absl::StrCat(stack, "/attention_bias/embedding/table"),
         absl::StrCat(stack, ".block.0.layer.0.SelfAttention.",
                      "relative_attention_bias.weight"));
    rule(ours + "rms_norm/scale", block + "0.layer_norm.weight");
    attention(ours + "attention/", block + "0.SelfAttention.");
    if (is_decoder) {
      attention(ours + "attention_to_memory/", block + "1.EncDecAttention.");
      rule(ours + "rms_norm_1/scale", block + "1.layer_norm.weight");
    }
    const std::string last = block + (is_decoder ? "2." : "1."),
                      dense = last + "DenseReluDense.";
    rule(ours + (is_decoder ? "rms_norm_2/scale" : "rms_norm_1/scale"),
         last + "layer_norm.weight");
    rule(ours + "feed_forward/gate/kernel", dense + "wi_0.weight",
         "d_ff d_model");
    rule(ours + "feed_forward/in/kernel",
         dense + (IsGated(config) ? "wi_1.weight" : "wi.weight"),
         "d_ff d_model");
    rule(ours + "feed_forward/out/kernel", dense + "wo.weight", "d_model d_ff");
    rule(absl::StrCat(stack, "/rms_norm/scale"),
         absl::StrCat(stack, ".final_layer_norm.weight"));
    map.copies.emplace_back(absl::StrCat(stack, ".embed_tokens.weight"),
                            "shared.weight");
  }
  // A table of older files that no position reads.
  map.ignored.emplace_back(
      "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight");
  if (config.tie_word_embeddings) {
    map.copies.emplace_back("lm_head.weight", "shared.weight");
  }
  return map;
}

}  // namespace mtf::nn
