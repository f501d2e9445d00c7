// SPDX-License-Identifier: Apache-2.0
#include "nn/models/mesh_transformer.h"

#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/embedding.h"
#include "nn/layers/layer.h"
#include "nn/models/model_parts.h"
#include "nn/models/transformer.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/random.h"
#include "ops/reshape.h"
#include "ops/slice.h"

namespace mtf::nn {
namespace {

constexpr char kMeshMemory[] = "memory_length";

bool HasEncoder(const MeshTransformerConfig& config) {
  return config.transformer_type != "decoder";
}
bool HasDecoder(const MeshTransformerConfig& config) {
  return config.transformer_type != "encoder";
}

absl::Status CheckType(const MeshTransformerConfig& config) {
  const std::string& type = config.transformer_type;
  if (type == "encdec" || type == "decoder" || type == "encoder") {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"transformer_type\" is \"", absl::Utf8SafeCEscape(type).substr(0, 80),
      "\", not encdec, decoder or encoder"));
}

// An error if `tokens` of a stack are missing, given for a stack that is not
// there, or wrong.
absl::Status CheckStackTokens(Tensor tokens, bool wanted, const char* stack,
                              const MeshTransformerConfig& config) {
  if (tokens.valid() != wanted) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a transformer of the type \"", config.transformer_type, "\" ",
        wanted ? "needs" : "takes no", " tokens for ", stack));
  }
  return wanted ? CheckTokens(tokens, "max_length", config.max_length)
                : absl::OkStatus();
}

absl::Status CheckMeshTransformer(Tensor tokens, Tensor decoder_tokens,
                                  const MeshTransformerConfig& config) {
  MTF_RETURN_IF_ERROR(CheckType(config));
  MTF_RETURN_IF_ERROR(
      CheckStackTokens(tokens, HasEncoder(config), "an encoder", config));
  MTF_RETURN_IF_ERROR(CheckStackTokens(decoder_tokens, HasDecoder(config),
                                       "a decoder", config));
  if (!tokens.valid() || !decoder_tokens.valid()) return absl::OkStatus();
  return mtf::internal::CheckInputs(tokens.graph(), {tokens, decoder_tokens});
}

TransformerOptions MeshStack(const MeshTransformerConfig& config,
                             int64_t layers, const Dimension& length,
                             bool causal) {
  return {.layers = layers,
          .attention = {.length = length,
                        .heads = {"heads", config.num_heads},
                        .d_kv = {"d_kv", config.d_kv},
                        .causal = causal,
                        .dropout = config.attention_dropout},
          .memory_attention = {.dropout = config.attention_dropout},
          .d_ff = {"d_ff", config.d_ff},
          .activation = Relu,
          .feed_forward = {.dropout = config.relu_dropout},
          .residual = {.norm = {.kind = NormKind::kRmsNorm,
                                .epsilon = config.norm_epsilon},
                       .dropout = config.layer_prepostprocess_dropout},
          .dropout = config.layer_prepostprocess_dropout};
}

}  // namespace

absl::StatusOr<MeshTransformerConfig> ReadMeshTransformerConfig(
    ConfigFields fields) {
  MeshTransformerConfig config;
  config.transformer_type =
      fields.Text("transformer_type", config.transformer_type);
  config.vocab_size = fields.Size("vocab_size");
  config.max_length = fields.Size("max_length");
  config.d_model = fields.Size("d_model");
  config.d_kv = fields.Size("d_kv");
  config.d_ff = fields.Size("d_ff");
  config.num_heads = fields.Size("num_heads");
  config.num_encoder_layers = fields.Layers("num_encoder_layers", 6);
  config.num_decoder_layers =
      fields.Layers("num_decoder_layers", config.num_encoder_layers);
  config.attention_dropout = fields.Number("attention_dropout", 0.1);
  config.relu_dropout = fields.Number("relu_dropout", 0.1);
  config.layer_prepostprocess_dropout =
      fields.Number("layer_prepostprocess_dropout", 0.1);
  config.label_smoothing = fields.Number("label_smoothing", 0.1);
  config.z_loss = fields.Number("z_loss", 0);
  config.norm_epsilon = fields.Epsilon("norm_epsilon", 1e-6);
  config.shared_embedding = fields.Flag("shared_embedding", true);
  config.shared_embedding_and_softmax_weights =
      fields.Flag("shared_embedding_and_softmax_weights", true);
  fields.RejectUnknown();
  MTF_RETURN_IF_ERROR(fields.status());
  MTF_RETURN_IF_ERROR(CheckType(config));
  return config;
}

LanguageModel MeshTransformer(Tensor tokens, Tensor decoder_tokens,
                              const MeshTransformerConfig& config,
                              std::source_location location) {
  const Tensor given = tokens.valid() ? tokens : decoder_tokens;
  if (!given.valid()) return {};
  Graph& graph = given.graph();
  const CallSiteScope site(graph, location);
  const absl::Status status =
      CheckMeshTransformer(tokens, decoder_tokens, config);
  if (!status.ok()) {
    return FailedModel(given, status, "mesh_transformer", location);
  }
  const Dimension vocab{"vocab", config.vocab_size},
      d_model{"d_model", config.d_model}, rows{"positions", config.max_length};
  const double scale = 1 / std::sqrt(static_cast<double>(config.d_model));

  const Tensor positions = EmbeddingTable(
      graph, rows, d_model, {.stddev = 1, .name = "position_embedding"});
  const auto embed = [&](Tensor of, Tensor table) {
    const Dimension length = LastDimension(of);
    const Tensor first = Rename(Slice(positions, rows.name, 0, length.size),
                                rows.name, length.name);
    const Tensor x = Embedding(of, vocab, d_model, {.table = table});
    return Dropout(x + internal::To(x.dtype(), first),
                   config.layer_prepostprocess_dropout);
  };

  Tensor table = EmbeddingTable(graph, vocab, d_model, {.stddev = 1});
  Tensor x, memory, mask;
  if (HasEncoder(config)) {
    const Dimension length = LastDimension(tokens);
    TransformerOptions encoder =
        MeshStack(config, config.num_encoder_layers, length, false);
    mask = Rename(NotEqual(tokens, 0.0), length.name, kMeshMemory);
    encoder.attention.mask = mask;
    const Scope scope(graph, "encoder");
    x = TransformerStack(embed(tokens, table), encoder).output;
    if (HasDecoder(config)) memory = Rename(x, length.name, kMeshMemory);
  }
  if (HasDecoder(config)) {
    TransformerOptions decoder = MeshStack(config, config.num_decoder_layers,
                                           LastDimension(decoder_tokens), true);
    decoder.memory_attention.mask = mask;
    const Scope scope(graph, "decoder");
    if (HasEncoder(config) && !config.shared_embedding) {
      table = EmbeddingTable(graph, vocab, d_model, {.stddev = 1});
    }
    x = TransformerStack(embed(decoder_tokens, table), decoder, memory).output;
  }
  if (config.shared_embedding_and_softmax_weights) {
    return {x * scale, table, vocab, {}};
  }
  return {x, HeadKernel(graph, d_model, vocab, scale), vocab, {}};
}

}  // namespace mtf::nn
