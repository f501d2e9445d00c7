// SPDX-License-Identifier: Apache-2.0
#include "nn/models/vit.h"

#include <algorithm>
#include <vector>

#include "mtf/errors.h"
#include "nn/layers/convolution.h"
#include "nn/layers/dense.h"
#include "nn/layers/embedding.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "nn/models/model_parts.h"
#include "nn/models/transformer.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/random.h"
#include "ops/reshape.h"

namespace mtf::nn {
namespace {

absl::Status CheckVit(const VitConfig& config) {
  MTF_RETURN_IF_ERROR(CheckDivides("patch_size", config.patch_size,
                                   "image_size", config.image_size));
  return CheckDivides("num_attention_heads", config.num_attention_heads,
                      "hidden_size", config.hidden_size);
}

absl::Status CheckImages(Tensor images, const VitConfig& config) {
  MTF_RETURN_IF_ERROR(CheckVit(config));
  MTF_RETURN_IF_ERROR(internal::CheckFloat(images, "images"));
  for (const Dimension& dim : {Dimension{"height", config.image_size},
                               Dimension{"width", config.image_size},
                               Dimension{"channels", config.num_channels}}) {
    MTF_RETURN_IF_ERROR(internal::CheckDimension(images, dim));
  }
  return absl::OkStatus();
}

// The class token, then the embeddings of patches in row-major order, with
// their positions: [batch..., length, d_model].
Tensor VitEmbeddings(Tensor images, const VitConfig& config,
                     const Dimension& d_model, const Dimension& length) {
  Graph& graph = images.graph();
  const int64_t patch = config.patch_size;
  Tensor x = Convolution(
      images, {{"height", patch}, {"width", patch}},
      {"channels", config.num_channels}, d_model,
      {.window = {.stride = patch, .padding = WindowPadding::kValid},
       .name = "patch_embedding"});
  x = MergeDimensions(x, {"height", "width"}, length.name);
  const LayerScope layer(graph, "embeddings", std::source_location::current());
  const Tensor initial =
      RandomNormal(graph, {d_model}, 0, 0.02, {.per_step = false});
  const Tensor token = Parameter(graph, "class_token", initial, x.dtype());
  Shape row = x.shape().Without(length.name).Without(d_model.name);
  row = row.With({length.name, 1}).With(d_model);
  x = Concat({Broadcast(token, row), x}, length.name);
  return PositionEmbedding(x, length, d_model);
}

}  // namespace

absl::StatusOr<VitConfig> ReadVitConfig(ConfigFields fields) {
  VitConfig config;
  config.hidden_size = fields.Size("hidden_size");
  config.num_hidden_layers = fields.Layers("num_hidden_layers");
  config.num_attention_heads = fields.Size("num_attention_heads");
  config.intermediate_size = fields.Size("intermediate_size");
  config.hidden_act = fields.Text("hidden_act", config.hidden_act);
  config.hidden_dropout_prob = fields.Number("hidden_dropout_prob", 0);
  config.attention_probs_dropout_prob =
      fields.Number("attention_probs_dropout_prob", 0);
  config.layer_norm_eps = fields.Epsilon("layer_norm_eps", 1e-12);
  config.image_size = fields.Size("image_size", 224);
  config.patch_size = fields.Size("patch_size", 16);
  config.num_channels = fields.Size("num_channels", 3);
  config.num_labels = NumLabels(fields);
  fields.Require("qkv_bias", "true");
  MTF_RETURN_IF_ERROR(fields.status());
  MTF_RETURN_IF_ERROR(ActivationOf(config.hidden_act).status());
  MTF_RETURN_IF_ERROR(CheckVit(config));
  return config;
}

VitOutputs Vit(Tensor images, const VitConfig& config,
               std::source_location location) {
  if (!images.valid()) return {};
  Graph& graph = images.graph();
  const CallSiteScope site(graph, location);
  absl::Status status = CheckImages(images, config);
  const auto activation = ActivationOf(config.hidden_act);
  if (status.ok()) status = activation.status();
  if (!status.ok()) {
    const Tensor failed = graph.Fail(status, "vit", location, images.shape());
    return {failed, failed};
  }
  const int64_t side = config.image_size / config.patch_size,
                num_heads = config.num_attention_heads;
  const Dimension length{"length", side * side + 1},
      d_model{"d_model", config.hidden_size}, heads{"heads", num_heads},
      d_kv{"d_kv", config.hidden_size / num_heads},
      d_ff{"d_ff", config.intermediate_size},
      classes{"classes", config.num_labels};

  Tensor x = VitEmbeddings(images, config, d_model, length);
  x = Dropout(x, config.hidden_dropout_prob);
  const Transformer encoder = TransformerStack(
      x, {.layers = config.num_hidden_layers,
          .attention = {.length = length,
                        .heads = heads,
                        .d_kv = d_kv,
                        .dropout = config.attention_probs_dropout_prob,
                        .bias = true},
          .d_ff = d_ff,
          .activation = *activation,
          .feed_forward = {.bias = true},
          .residual = {.norm = {.epsilon = config.layer_norm_eps},
                       .dropout = config.hidden_dropout_prob}});
  const Tensor class_token = Index(encoder.output, length.name, 0);
  const Tensor logits =
      Dense(class_token, {d_model}, {classes}, {.name = "dense_classifier"});
  return {encoder.output, logits};
}

WeightMap VitWeights(const VitConfig&) {
  WeightMap map;
  map.prefix = "vit.";
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
  const std::string ours = "layer_*/", theirs = "encoder.layer.*.";
  linear("patch_embedding", "embeddings.patch_embeddings.projection",
         "d_model channels kernel_height kernel_width");
  map.rules.push_back(
      {"embeddings/class_token", "embeddings.cls_token", "1 1 d_model"});
  map.rules.push_back({"embeddings/position_embedding/table",
                       "embeddings.position_embeddings", "1 length d_model"});
  norm(ours + "layer_norm", theirs + "layernorm_before");
  for (const char* layer : {"query", "key", "value"}) {
    const std::string name = layer;
    linear(ours + "attention/" + name, theirs + "attention.attention." + name,
           "(heads d_kv) d_model", "(heads d_kv)");
  }
  linear(ours + "attention/output", theirs + "attention.output.dense",
         "d_model (heads d_kv)");
  norm(ours + "layer_norm_1", theirs + "layernorm_after");
  linear(ours + "feed_forward/in", theirs + "intermediate.dense",
         "d_ff d_model");
  linear(ours + "feed_forward/out", theirs + "output.dense", "d_model d_ff");
  norm("layer_norm", "layernorm");
  linear("dense_classifier", "/classifier", "classes d_model");
  const std::string layer = "layers.*.";
  map.modules = {
      {theirs + "attention.attention.query", layer + "attention.q_proj"},
      {theirs + "attention.attention.key", layer + "attention.k_proj"},
      {theirs + "attention.attention.value", layer + "attention.v_proj"},
      {theirs + "attention.output.dense", layer + "attention.o_proj"},
      {theirs + "intermediate.dense", layer + "mlp.fc1"},
      {theirs + "output.dense", layer + "mlp.fc2"}};
  map.ignored = {"pooler.dense.weight", "pooler.dense.bias"};
  return map;
}

}  // namespace mtf::nn
