// SPDX-License-Identifier: Apache-2.0
#include "tools/models.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "nn/attention/attention.h"
#include "nn/layers/embedding.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/layer_norm.h"
#include "nn/losses/cross_entropy.h"
#include "nn/models/model_presets.h"
#include "nn/optimizers/adam.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "planning/explain/explain_table.h"

namespace mtf {
namespace {

struct Model {
  const char* name;
  GptSizes sizes;
};

// Radford et al. 2019 (gpt2), Brown et al. 2020 (gpt3), Narayanan et al. 2021
// and Korthikanti et al. 2022 (megatron), where the batch is one that fits
// without pipelining and rematerialization.
const Model kModels[] = {
    // layers, batch, length, d_model, heads, d_kv, d_ff, vocab, dtype
    {"small", {2, 16, 64, 128, 4, 32, 512, 256, kFloat32}},
    {"transformer", {2, 16, 64, 128, 4, 32, 512, 256, kFloat32}},
    {"gpt2", {12, 64, 1024, 768, 12, 64, 3072, 50257, kBFloat16}},
    {"gpt2_medium", {24, 64, 1024, 1024, 16, 64, 4096, 50257, kBFloat16}},
    {"gpt2_large", {36, 64, 1024, 1280, 20, 64, 5120, 50257, kBFloat16}},
    {"gpt2_xl", {48, 64, 1024, 1600, 25, 64, 6400, 50257, kBFloat16}},
    {"gpt3_7b", {32, 64, 2048, 4096, 32, 128, 16384, 50257, kBFloat16}},
    {"gpt3_13b", {40, 64, 2048, 5120, 40, 128, 20480, 50257, kBFloat16}},
    {"gpt3_175b", {96, 16, 2048, 12288, 96, 128, 49152, 50257, kBFloat16}},
    {"megatron_22b", {48, 64, 2048, 6144, 64, 96, 24576, 51200, kBFloat16}},
    {"megatron_530b", {105, 8, 2048, 20480, 128, 160, 81920, 51200, kBFloat16}},
    {"megatron_1t", {128, 8, 2048, 25600, 160, 160, 102400, 51200, kBFloat16}},
};

}  // namespace

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const Model& model : kModels) names.emplace_back(model.name);
  return names;
}

absl::StatusOr<GptSizes> FindModel(absl::string_view name) {
  for (const Model& model : kModels) {
    if (model.name == name) return model.sizes;
  }
  return UnknownModel(name, ModelNames());
}

absl::Status UnknownModel(absl::string_view name,
                          const std::vector<std::string>& names) {
  const std::vector<std::string> presets = nn::ModelPresetNames();
  std::vector<std::string> all = names;
  all.insert(all.end(), presets.begin(), presets.end());
  const std::string nearest = NearestName(name, all);
  return absl::NotFoundError(absl::StrCat(
      "unknown model ", Quoted(name),
      nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?"),
      DetailLine("models", absl::StrJoin(names, ", ")),
      DetailLine("presets",
                 absl::StrCat(presets.size(), ", such as ", presets.front(),
                              ": docs/models.md"))));
}

absl::StatusOr<GptStep> BuildGpt(const GptSizes& sizes) {
  const Dimension batch{"batch", sizes.batch}, length{"length", sizes.length},
      d_model{"d_model", sizes.d_model}, heads{"heads", sizes.heads},
      d_kv{"d_kv", sizes.d_kv}, d_ff{"d_ff", sizes.d_ff},
      vocab{"vocab", sizes.vocab};
  GptStep step;
  step.graph = std::make_unique<Graph>();
  Graph& graph = *step.graph;
  const Tensor tokens = Input(graph, "tokens", kInt32, {batch, length});
  const Tensor targets = Input(graph, "targets", kInt32, {batch, length});
  Tensor x = nn::Embedding(tokens, vocab, d_model, {.dtype = sizes.dtype});
  x = nn::PositionEmbedding(x, length, d_model);
  for (int64_t layer = 0; layer < sizes.layers; ++layer) {
    Scope scope(graph, absl::StrCat("layer_", layer));
    x = x +
        nn::SelfAttention(
            nn::LayerNorm(x, d_model),
            {.length = length, .heads = heads, .d_kv = d_kv, .causal = true});
    x = x + nn::FeedForward(nn::LayerNorm(x, d_model), d_ff, Gelu);
  }
  x = nn::LayerNorm(x, d_model);
  const Tensor loss = nn::CrossEntropy(x, vocab, targets);
  step.targets.fetches = {loss};
  step.targets.updates = {nn::AdamW().Minimize(loss)};
  step.text = absl::StrCat(Plural(sizes.layers, "layer"), ", a batch of ",
                           Plural(sizes.batch, "sequence"), " of ",
                           Plural(sizes.length, "token"));
  MTF_RETURN_IF_ERROR(graph.status());
  return step;
}

std::map<std::string, HostTensor> FeedsOf(const GptSizes& sizes) {
  const Shape shape = {{"batch", sizes.batch}, {"length", sizes.length}};
  std::vector<int32_t> tokens(shape.num_elements());
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(i * 2654435761u % sizes.vocab);
  }
  return {{"tokens", HostTensor::Of<int32_t>(shape, tokens)},
          {"targets", HostTensor::Of<int32_t>(shape, tokens)}};
}

}  // namespace mtf
