// SPDX-License-Identifier: Apache-2.0
//
// LoadAdapters.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/exceptions.h"
#include "mtf/read_file.h"
#include "mtf/status.h"
#include "train/checkpoint/safetensors_set.h"
#include "train/checkpoint/strict_json.h"
#include "train/weights/adapter_weights.h"
#include "train/weights/adapters.h"
#include "train/weights/set_parameters.h"
#include "train/weights/weight_files.h"

namespace mtf::train {
namespace {

// What adapter_config.json says about scales.
struct AdapterConfig {
  double alpha = 8;  // PEFT's default
  // By the end of a module's name, in the order of the file.
  std::vector<std::pair<std::string, double>> alpha_of;
  bool rank_stabilized = false;  // alpha / sqrt(rank); Kalajdzievski, 2023

  double ScaleOf(const std::string& module, int64_t rank) const {
    double chosen = alpha;
    for (const auto& [end, value] : alpha_of) {
      if (module == end || absl::EndsWith(module, absl::StrCat(".", end))) {
        chosen = value;
        break;  // as in PEFT
      }
    }
    const double divisor = static_cast<double>(rank);
    return chosen / (rank_stabilized ? std::sqrt(divisor) : divisor);
  }
};

absl::Status NotSupported(const std::string& path, absl::string_view field,
                          absl::string_view supported) {
  return absl::UnimplementedError(absl::StrCat(
      "the field ", Quoted(field), " of ", Quoted(path), " must be ", supported,
      DetailLine("help",
                 "merge the adapters with PEFT, and load the merged model")));
}

bool IsNumber(const JsonNode& node) {
  return node.is(JsonNode::Kind::kInteger) || node.is(JsonNode::Kind::kNumber);
}

// Whether `node` is absent in effect: null, false or empty.
bool IsUnset(const JsonNode& node) {
  using Kind = JsonNode::Kind;
  return node.is(Kind::kNull) ||
         (node.is(Kind::kBool) && node.integer() == 0) ||
         (node.is(Kind::kText) && node.text().empty()) ||
         ((node.is(Kind::kArray) || node.is(Kind::kObject)) &&
          node.children().empty());
}

// Fields whose methods compute another function than W + scale * A * B.
constexpr const char* kOtherMethods[] = {
    "use_dora",     "lora_bias",         "modules_to_save",
    "use_qalora",   "use_bdlora",        "alora_invocation_tokens",
    "kasa_config",  "monteclora_config", "trainable_token_indices",
    "arrow_config", "target_parameters", "layer_replication"};

// Values of "init_lora_weights" with which PEFT changes the kernels of the
// model, so that the adapters do not belong to the published ones.
constexpr const char* kOtherKernels[] = {"pissa", "olora", "corda", "loftq",
                                         "lora_ga"};

absl::Status ReadAlphas(const std::string& path, const JsonNode& node,
                        AdapterConfig& config) {
  if (IsUnset(node)) return absl::OkStatus();
  if (!node.is(JsonNode::Kind::kObject)) {
    return NotSupported(path, "alpha_pattern", "an object, or null");
  }
  for (const JsonNode& alpha : node.children()) {
    const bool is_name =
        std::all_of(alpha.key().begin(), alpha.key().end(), [](char c) {
          return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '-';
        });
    if (!is_name || !IsNumber(alpha)) {
      return NotSupported(path, "alpha_pattern",
                          "numbers by the names of layers, not by regular "
                          "expressions");
    }
    config.alpha_of.emplace_back(alpha.key(), alpha.number());
  }
  return absl::OkStatus();
}

absl::Status ReadField(const std::string& path, const JsonNode& field,
                       AdapterConfig& config) {
  const absl::string_view key = field.key();
  if (key == "peft_type" && field.text() != "LORA") {
    return NotSupported(path, key, "\"LORA\"");
  }
  if (key == "bias" && field.text() != "none") {
    return NotSupported(path, key, "\"none\"");
  }
  for (const char* method : kOtherMethods) {
    if (key == method && !IsUnset(field)) {
      return NotSupported(path, key, "null or false");
    }
  }
  for (const char* method : kOtherKernels) {
    if (key == "init_lora_weights" &&
        absl::StartsWithIgnoreCase(field.text(), method)) {
      return NotSupported(path, key,
                          "true, or a method that keeps the kernels");
    }
  }
  if (key == "lora_alpha") {
    if (!IsNumber(field)) return NotSupported(path, key, "a number");
    config.alpha = field.number();
  }
  if (key == "use_rslora") config.rank_stabilized = !IsUnset(field);
  if (key == "alpha_pattern") return ReadAlphas(path, field, config);
  return absl::OkStatus();
}

absl::StatusOr<AdapterConfig> ReadAdapterConfig(const std::string& path) {
  constexpr int64_t kMostBytes = 1 << 20;
  MTF_ASSIGN_OR_RETURN(
      const std::string text,
      ReadTextFile(path, "configuration of adapters", kMostBytes));
  const auto document = JsonDocument::Parse(text);
  if (!document.ok() || !document->root().is(JsonNode::Kind::kObject)) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(path), " is not a JSON object",
        document.ok() ? "" : absl::StrCat(": ", document.status().message())));
  }
  AdapterConfig config;
  for (const JsonNode& field : document->root().children()) {
    MTF_RETURN_IF_ERROR(ReadField(path, field, config));
  }
  return config;
}

// How to build a model for `adapter` of a file that has the rank `rank`.
std::string RankHelp(const AdapterWeights& adapter, int64_t rank) {
  const auto build = [](int64_t own) {
    return absl::StrCat("build the model with .rank = ", own,
                        " (mtf train: --adapter_rank=", own, ")");
  };
  if (adapter.blocks == 1 || rank % adapter.blocks != 0) return build(rank);
  return absl::StrCat(build(rank / adapter.blocks), " for ", adapter.blocks,
                      " adapters of this rank in the file, or with ", rank,
                      " for one A of all parts");
}

// What is loaded, and from which file.
struct AdapterPlan {
  std::unique_ptr<WeightFiles> files;
  std::vector<nn::ParameterWeights> weights;
  std::map<std::string, double> scales;  // by the name of the variable
  int64_t adapters = 0;
};

class AdapterLoad {
 public:
  AdapterLoad(const Graph& graph, std::string path,
              const LoadAdaptersOptions& options)
      : graph_(graph), path_(std::move(path)), options_(options) {}

  absl::StatusOr<AdapterPlan> Plan(const nn::WeightMap& map) {
    MTF_ASSIGN_OR_RETURN(const std::vector<AdapterWeights> adapters,
                         FindAdapterWeights(graph_, map, options_.scope));
    if (adapters.empty()) {
      return absl::NotFoundError(absl::StrCat(
          "the model has no adapter to load ", Quoted(path_), " into",
          DetailLine(
              "help",
              "build it in an nn::AdapterScope (mtf train: --adapters)")));
    }
    MTF_ASSIGN_OR_RETURN(config_, ReadAdapterConfig(absl::StrCat(
                                      path_, "/adapter_config.json")));
    const std::string file = absl::StrCat(path_, "/adapter_model.safetensors");
    MTF_ASSIGN_OR_RETURN(plan_.files, WeightFiles::Open(file, {}));
    MTF_ASSIGN_OR_RETURN(set_, SafetensorsSet::Open(file));
    for (const AdapterWeights& adapter : adapters) {
      MTF_RETURN_IF_ERROR(Add(adapter));
    }
    MTF_RETURN_IF_ERROR(CheckZeros());
    const std::vector<std::string> unused = plan_.files->Unused(plan_.weights);
    for (const std::string& tensor : unused) {
      if (options_.partial || !absl::StrContains(tensor, ".lora_embedding_")) {
        continue;
      }
      return absl::UnimplementedError(absl::StrCat(
          "the tensor ", Quoted(tensor), " in ", Quoted(file),
          " adapts an embedding, which has no adapter here",
          DetailLine("help",
                     "merge the adapters with PEFT and load the merged model, "
                     "or set .partial to leave it out")));
    }
    if (!unused.empty() && !options_.partial) {
      return absl::InvalidArgumentError(absl::StrCat(
          Plural(static_cast<int64_t>(unused.size()), "tensor"), " in ",
          Quoted(file), " belong to no adapter, such as ", Quoted(unused[0]),
          DetailLine(
              "help",
              "build the model with a pattern of adapters (mtf train: "
              "--adapters) that matches their layers, or set .partial")));
    }
    return std::move(plan_);
  }

 private:
  absl::Status Add(AdapterWeights adapter) {
    const SafetensorsEntry* a =
        plan_.files->Find(AdapterTensor(adapter.modules[0], 'A'));
    if (a == nullptr) {
      a = plan_.files->Find(AdapterTensor(adapter.older_modules[0], 'A'));
      if (a != nullptr) adapter.modules = adapter.older_modules;
    }
    const std::string& name = graph_.variables()[adapter.variables.a].name;
    if (a == nullptr && options_.partial) return absl::OkStatus();
    RankBlocks blocks = RankBlocks::kOwn;
    if (a != nullptr && a->sizes.size() == 2) {
      const int64_t rank = a->sizes[0];
      if (rank != adapter.rank * adapter.blocks) {
        blocks = RankBlocks::kShared;
        if (adapter.parts == 1 || rank != adapter.rank) {
          return absl::InvalidArgumentError(absl::StrCat(
              "the adapter ", Quoted(a->name), " in ", Quoted(path_),
              " has the rank ", rank, ", but ", Quoted(name), " has ",
              adapter.rank, DetailLine("help", RankHelp(adapter, rank))));
        }
      }
    }
    const nn::ParameterWeights of_a = WeightsOfA(graph_, adapter, blocks),
                               of_b = WeightsOfB(graph_, adapter, blocks);
    MTF_RETURN_IF_ERROR(plan_.files->Check(of_a, name));
    MTF_RETURN_IF_ERROR(
        plan_.files->Check(of_b, graph_.variables()[adapter.variables.b].name));
    plan_.weights.push_back(of_a);
    plan_.weights.push_back(of_b);
    MTF_ASSIGN_OR_RETURN(
        plan_.scales[graph_.variables()[adapter.variables.scale].name],
        ScaleOf(adapter, a->sizes[0]));
    ++plan_.adapters;
    if (adapter.parts > 1)
      fused_[of_b.tensors[0]].emplace_back(adapter, blocks);
    return absl::OkStatus();
  }

  // The scale of `adapter`, which is a variable of f32.
  absl::StatusOr<double> ScaleOf(const AdapterWeights& adapter,
                                 int64_t rank) const {
    const double scale = config_.ScaleOf(adapter.modules[0], rank);
    constexpr double kMost = std::numeric_limits<float>::max();
    if (std::abs(scale) <= kMost) return scale;
    return absl::InvalidArgumentError(absl::StrCat(
        "the scale of ", Quoted(adapter.modules[0]), ", alpha by the rank ",
        rank, ", is ", scale, ", but is at most ", kMost,
        DetailLine(
            "help",
            absl::StrCat("correct \"lora_alpha\" or \"alpha_pattern\" in ",
                         Quoted(path_ + "/adapter_config.json")))));
  }

  // Elements of B in a fused layer that no adapter reads must be 0.
  absl::Status CheckZeros() const {
    for (const auto& [tensor, parts] : fused_) {
      const SafetensorsEntry* entry = plan_.files->Find(tensor);
      MTF_ASSIGN_OR_RETURN(const HostTensor value, set_->Read(entry->name));
      const std::vector<double> elements = value.ToDoubles();
      const int64_t rows = entry->sizes[0], columns = entry->sizes[1];
      for (int64_t i = 0; i < rows * columns; ++i) {
        if (elements[i] == 0) continue;
        const int64_t part = i / columns * parts[0].first.parts / rows;
        const bool is_read =
            std::any_of(parts.begin(), parts.end(), [&](const auto& each) {
              const auto& [adapter, blocks] = each;
              return adapter.part == part &&
                     (blocks == RankBlocks::kShared ||
                      i % columns / adapter.rank == adapter.block);
            });
        if (is_read) continue;
        return absl::InvalidArgumentError(absl::StrCat(
            "row ", i / columns, " of ", Quoted(entry->name), " in ",
            Quoted(path_), " is not 0, but belongs to no adapter of the model",
            DetailLine("help",
                       "build the model with adapters of all parts of this "
                       "layer, such as queries, keys and values")));
      }
    }
    return absl::OkStatus();
  }

  const Graph& graph_;
  const std::string path_;
  const LoadAdaptersOptions& options_;
  AdapterConfig config_;
  AdapterPlan plan_;
  std::unique_ptr<SafetensorsSet> set_;
  // By tensor B of a fused layer: the adapters that read it.
  std::map<std::string, std::vector<std::pair<AdapterWeights, RankBlocks>>>
      fused_;
};

}  // namespace

absl::StatusOr<int64_t> LoadAdapters(Session& session, const nn::WeightMap& map,
                                     const std::string& path,
                                     const LoadAdaptersOptions& options) {
  absl::StatusOr<AdapterPlan> plan = AdapterPlan();
  MTF_RETURN_IF_ERROR(session.Agree(CatchExceptions([&] {
    plan = AdapterLoad(session.graph(), path, options).Plan(map);
    return plan.status();
  })));
  MTF_RETURN_IF_ERROR(SetParameters(session, *plan->files, plan->weights));
  for (const auto& [name, scale] : plan->scales) {
    MTF_RETURN_IF_ERROR(session.WriteVariable(
        name, HostTensor::Of<float>({}, {static_cast<float>(scale)})));
  }
  return plan->adapters;
}

}  // namespace mtf::train
