// SPDX-License-Identifier: Apache-2.0
//
// ExportAdapters.
#include <array>
#include <charconv>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "train/checkpoint/strict_json.h"
#include "train/weights/adapter_product.h"
#include "train/weights/adapter_weights.h"
#include "train/weights/adapters.h"
#include "train/weights/weight_export.h"

namespace mtf::train {
namespace {

// An adapter as PEFT has it.
struct PublishedAdapter {
  int64_t rank = 0;
  double scale = 0;
  bool fan_in_first = false;
  std::string kernel;  // of the first part
};

// By module. Reads the scales. Collective.
absl::StatusOr<std::map<std::string, PublishedAdapter>> AdaptersByModule(
    Session& session, const std::vector<AdapterWeights>& adapters) {
  std::map<std::string, PublishedAdapter> modules;
  for (const AdapterWeights& adapter : adapters) {
    const VariableInfo& info =
        session.graph().variables()[adapter.variables.scale];
    MTF_ASSIGN_OR_RETURN(const std::vector<float> scale,
                         ReadParameter(session, info));
    for (const std::string& module : adapter.modules) {
      const auto [at, is_new] = modules.try_emplace(
          module, PublishedAdapter{.rank = adapter.rank * adapter.blocks,
                                   .scale = scale[0],
                                   .fan_in_first = adapter.fan_in_dim == 0,
                                   .kernel = adapter.kernel});
      if (is_new || at->second.scale == scale[0]) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "the kernels ", Quoted(at->second.kernel), " and ",
          Quoted(adapter.kernel), " are parts of ", Quoted(module),
          ", but their adapters have the scales ", at->second.scale, " and ",
          scale[0], DetailLine("help", "give them one alpha")));
    }
  }
  return modules;
}

// The alpha of an adapter: the shortest text of an f32 that gives its scale, or
// that of an f64 if none does.
std::string AlphaText(const PublishedAdapter& adapter) {
  const double rank = static_cast<double>(adapter.rank),
               exact = adapter.scale * rank;
  const float rounded = static_cast<float>(exact);
  const bool suffices = static_cast<float>(rounded / rank) == adapter.scale;
  std::array<char, 64> text;
  char* const end = text.data() + text.size();
  const std::to_chars_result result =
      suffices ? std::to_chars(text.data(), end, rounded)
               : std::to_chars(text.data(), end, exact);
  return std::string(text.data(), result.ptr);
}

// The text of adapter_config.json.
std::string ConfigText(const std::map<std::string, PublishedAdapter>& modules,
                       const std::string& base_model) {
  const PublishedAdapter& first = modules.begin()->second;
  const std::string alpha = AlphaText(first);
  std::vector<std::string> targets, ranks, alphas;
  for (const auto& [module, adapter] : modules) {
    const std::string name = JsonText(module);
    targets.push_back(name);
    const std::string own = AlphaText(adapter);
    if (adapter.rank != first.rank) {
      ranks.push_back(absl::StrCat(name, ": ", adapter.rank));
    }
    if (own != alpha) {
      alphas.push_back(absl::StrCat(name, ": ", own));
    }
  }
  return absl::StrCat(
      "{\n  \"peft_type\": \"LORA\",\n  \"task_type\": null,\n",
      "  \"base_model_name_or_path\": ",
      base_model.empty() ? "null" : JsonText(base_model),
      ",\n  \"r\": ", first.rank, ",\n  \"lora_alpha\": ", alpha,
      ",\n  \"lora_dropout\": 0.0,\n  \"bias\": \"none\",\n",
      "  \"fan_in_fan_out\": ", first.fan_in_first ? "true" : "false",
      ",\n  \"inference_mode\": true,\n  \"rank_pattern\": {",
      absl::StrJoin(ranks, ", "), "},\n  \"alpha_pattern\": {",
      absl::StrJoin(alphas, ", "), "},\n  \"target_modules\": [\n    ",
      absl::StrJoin(targets, ",\n    "), "\n  ]\n}\n");
}

}  // namespace

absl::Status ExportAdapters(Session& session, const nn::WeightMap& map,
                            const std::string& path,
                            const ExportAdaptersOptions& options) {
  const Graph& graph = session.graph();
  MTF_ASSIGN_OR_RETURN(const std::vector<AdapterWeights> adapters,
                       FindAdapterWeights(graph, map, options.scope));
  if (adapters.empty()) {
    return absl::NotFoundError(
        absl::StrCat("the model has no adapter to export",
                     DetailLine("help",
                                "build it in an nn::AdapterScope (mtf train: "
                                "--adapters)")));
  }
  MTF_ASSIGN_OR_RETURN(const auto modules, AdaptersByModule(session, adapters));
  ExportContents contents = {.weights = {},
                             .name = "adapter_model",
                             .config = ConfigText(modules, options.base_model),
                             .config_name = "adapter_config.json",
                             .dtype = options.dtype,
                             // PEFT reads one file.
                             .max_file_bytes = int64_t{1} << 62,
                             // The blocks of B outside of its diagonal.
                             .fills_with_zeros = true};
  for (const AdapterWeights& adapter : adapters) {
    contents.weights.push_back(WeightsOfA(graph, adapter, RankBlocks::kOwn));
    contents.weights.push_back(WeightsOfB(graph, adapter, RankBlocks::kOwn));
  }
  const std::vector<nn::ParameterWeights> weights = contents.weights;
  WeightExport exported(session, map, path, std::move(contents));
  return exported.Run([&] {
    std::vector<const nn::ParameterWeights*> all;
    for (const nn::ParameterWeights& each : weights) all.push_back(&each);
    return exported.Write(all);
  });
}

}  // namespace mtf::train
