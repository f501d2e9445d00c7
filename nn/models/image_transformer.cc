// SPDX-License-Identifier: Apache-2.0
#include "nn/models/image_transformer.h"

#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/attention/local_attention.h"
#include "nn/layers/embedding.h"
#include "nn/layers/layer.h"
#include "nn/models/model_parts.h"
#include "nn/models/transformer.h"
#include "ops/elementwise.h"
#include "ops/reshape.h"

namespace mtf::nn {
namespace {

absl::Status CheckAttentionType(const ImageTransformerConfig& config) {
  const std::string& type = config.attention_type;
  if (type == "local1d" || type == "local1d_spatial" ||
      type == "local2d_spatial") {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"attention_type\" is \"", absl::Utf8SafeCEscape(type).substr(0, 80),
      "\", not local1d, local1d_spatial or local2d_spatial"));
}

absl::Status CheckPixels(Tensor tokens, const ImageTransformerConfig& config) {
  MTF_RETURN_IF_ERROR(CheckAttentionType(config));
  MTF_RETURN_IF_ERROR(CheckTokens(tokens));
  const Dimension& length = LastDimension(tokens);
  if (length.size == config.length()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "images have ", config.img_len, " x ", config.img_len, " x ",
      config.num_channels, " = ", config.length(), " values, but \"",
      length.name, "\" is ", length.size, DescribeInputs({tokens})));
}

// Where the layers attend to, for x of the dimension `length` or of both
// others.
LocalAttentionOptions AttendedPixels(const ImageTransformerConfig& config,
                                     const Dimension& length,
                                     const Dimension& rows,
                                     const Dimension& columns) {
  if (config.attention_type == "local1d") {
    return {.along = {{length, config.block_length - 1}}};
  }
  if (config.attention_type == "local1d_spatial") {
    return {.along = {{length, config.block_length}}};
  }
  return {
      .along = {{rows, config.block_height}, {columns, config.block_width}}};
}

}  // namespace

absl::StatusOr<ImageTransformerConfig> ReadImageTransformerConfig(
    ConfigFields fields) {
  ImageTransformerConfig config;
  config.img_len = fields.Size("img_len");
  config.num_channels = fields.Size("num_channels", 3);
  config.vocab_size = fields.Size("vocab_size", 256);
  config.hidden_size = fields.Size("hidden_size");
  config.d_kv = fields.Size("d_kv");
  config.d_ff = fields.Size("d_ff");
  config.num_heads = fields.Size("num_heads");
  config.num_decoder_layers = fields.Layers("num_decoder_layers");
  config.attention_type = fields.Text("attention_type", config.attention_type);
  config.block_length = fields.Size("block_length", config.block_length);
  config.block_height = fields.Size("block_height", config.block_height);
  config.block_width = fields.Size("block_width", config.block_width);
  config.dropout = fields.Number("dropout", config.dropout);
  config.layer_prepostprocess_dropout = fields.Number(
      "layer_prepostprocess_dropout", config.layer_prepostprocess_dropout);
  config.norm_epsilon = fields.Epsilon("norm_epsilon", config.norm_epsilon);
  fields.Require("unconditional", "true");
  fields.RejectUnknown();
  MTF_RETURN_IF_ERROR(fields.status());
  MTF_RETURN_IF_ERROR(CheckAttentionType(config));
  // The number of values of an image, which must not overflow.
  constexpr int64_t kMostLength = 8192, kMostChannels = 4096;
  if (config.img_len > kMostLength || config.num_channels > kMostChannels) {
    return absl::InvalidArgumentError(absl::StrCat(
        "images of ", config.img_len, " x ", config.img_len, " pixels of ",
        config.num_channels, " channels are too large: \"img_len\" is at most ",
        kMostLength, ", \"num_channels\" ", kMostChannels));
  }
  return config;
}

LanguageModel ImageTransformer(Tensor tokens,
                               const ImageTransformerConfig& config,
                               std::source_location location) {
  if (!tokens.valid()) return {};
  Graph& graph = tokens.graph();
  const CallSiteScope site(graph, location);
  const absl::Status status = CheckPixels(tokens, config);
  if (!status.ok()) {
    return FailedModel(tokens, status, "image_transformer", location);
  }
  const Dimension length = LastDimension(tokens), rows{"rows", config.img_len},
                  columns{"columns", config.columns()},
                  vocab{"vocab", config.vocab_size},
                  d_model{"d_model", config.hidden_size},
                  heads{"heads", config.num_heads}, d_kv{"d_kv", config.d_kv};
  const bool in_two_dimensions = config.attention_type == "local2d_spatial";

  Tensor x = Embedding(tokens, vocab, d_model, {.stddev = 1});
  const Tensor row = EmbeddingTable(graph, rows, d_model,
                                    {.stddev = 1, .name = "row_embedding"}),
               column =
                   EmbeddingTable(graph, columns, d_model,
                                  {.stddev = 1, .name = "column_embedding"});
  const Tensor position =
      Transpose(Broadcast(row, {rows, columns, d_model}) + column,
                {rows, columns, d_model});
  x = SplitDimension(x, length.name, {rows, columns}) +
      internal::To(x.dtype(), position);
  if (!in_two_dimensions) {
    x = MergeDimensions(x, {rows.name, columns.name}, length.name);
  }

  const LocalAttentionOptions attended =
      AttendedPixels(config, length, rows, columns);
  const AttentionOptions attention = {
      .heads = heads, .d_kv = d_kv, .causal = true};
  Tensor hidden =
      TransformerStack(
          x, {.layers = config.num_decoder_layers,
              .sublayers = {[=](Tensor y, const StackPlace&) {
                              return LocalSelfAttention(y, attended, attention);
                            },
                            StackLayer::kFeedForward},
              .d_ff = {"d_ff", config.d_ff},
              .activation = Relu,
              .feed_forward = {.dropout = config.dropout},
              .residual = {.norm = {.epsilon = config.norm_epsilon},
                           .dropout = config.layer_prepostprocess_dropout}})
          .output;
  if (in_two_dimensions) {
    hidden = MergeDimensions(hidden, {rows.name, columns.name}, length.name);
  }
  const double scale = 1 / std::sqrt(static_cast<double>(config.hidden_size));
  return {hidden, HeadKernel(graph, d_model, vocab, scale), vocab, {}};
}

}  // namespace mtf::nn
