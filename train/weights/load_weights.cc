// SPDX-License-Identifier: Apache-2.0
#include "train/weights/load_weights.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layouts/text_items.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "train/session/rank_variables.h"
#include "train/weights/shard_ranges.h"
#include "train/weights/weight_files.h"

namespace mtf::train {
namespace {

// What is loaded, and from which files.
struct LoadPlan {
  std::unique_ptr<WeightFiles> files;
  std::vector<nn::ParameterWeights> weights;
  LoadedWeights report;
};

absl::Status CheckUnused(const std::string& path, LoadPlan& plan,
                         bool partial) {
  plan.report.unused = plan.files->Unused(plan.weights);
  const std::vector<std::string>& unused = plan.report.unused;
  if (unused.empty() || partial) return absl::OkStatus();
  const size_t shown = std::min<size_t>(unused.size(), 3);
  const std::vector<std::string> first(unused.begin(), unused.begin() + shown);
  return absl::InvalidArgumentError(absl::StrCat(
      Plural(static_cast<int64_t>(unused.size()), "tensor"), " in ",
      Quoted(path), " belong to no parameter: ", absl::StrJoin(first, ", "),
      unused.size() > shown ? ", ..." : "",
      DetailLine("help",
                 "check that the config is that of these weights, or "
                 "allow tensors without a parameter")));
}

absl::StatusOr<LoadPlan> PlanLoad(const Graph& graph, const nn::WeightMap& map,
                                  const std::string& path,
                                  const LoadWeightsOptions& options) {
  LoadPlan plan;
  MTF_ASSIGN_OR_RETURN(plan.files, WeightFiles::Open(path, map));
  MTF_ASSIGN_OR_RETURN(const std::vector<nn::ParameterWeights> all,
                       nn::ResolveWeights(graph, map, options.scope));
  for (const nn::ParameterWeights& weights : all) {
    const std::string& name = graph.variables()[weights.variable].name;
    const absl::Status status = plan.files->Check(weights, name);
    if (absl::IsNotFound(status) && options.partial) {
      plan.report.missing.push_back(name);
      continue;
    }
    MTF_RETURN_IF_ERROR(status);
    plan.weights.push_back(weights);
  }
  plan.report.parameters = static_cast<int64_t>(plan.weights.size());
  MTF_RETURN_IF_ERROR(CheckUnused(path, plan, options.partial));
  return plan;
}

// By the id of a variable: the weights of which it is set. Those of a parameter
// also are those of its master copy and its moving average.
std::map<int, const nn::ParameterWeights*> WeightsByVariable(
    const Graph& graph, const LoadPlan& plan) {
  std::map<int, const nn::ParameterWeights*> weights_of;
  for (const nn::ParameterWeights& weights : plan.weights) {
    const VariableInfo& info = graph.variables()[weights.variable];
    for (const int id : {info.id, info.master, info.average}) {
      if (id >= 0) weights_of[id] = &weights;
    }
  }
  return weights_of;
}

// `value` itself if it has the dtype.
HostTensor ConvertedTo(HostTensor value, DType dtype) {
  if (value.dtype() == dtype) return value;
  return TensorOfFloats(
      value.shape(), dtype,
      FloatsOf(value.data(), value.dtype(), value.num_elements()));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> LoadedVariables(
    const Graph& graph, const nn::WeightMap& map, const std::string& path,
    const LoadWeightsOptions& options) {
  MTF_ASSIGN_OR_RETURN(const LoadPlan plan,
                       PlanLoad(graph, map, path, options));
  std::vector<std::string> names;
  for (const auto& [id, weights] : WeightsByVariable(graph, plan)) {
    names.push_back(graph.variables()[id].name);
  }
  return names;
}

absl::StatusOr<LoadedWeights> LoadWeights(Session& session,
                                          const nn::WeightMap& map,
                                          const std::string& path,
                                          const LoadWeightsOptions& options) {
  const Graph& graph = session.graph();
  absl::StatusOr<LoadPlan> plan = PlanLoad(graph, map, path, options);
  MTF_RETURN_IF_ERROR(session.Agree(plan.status()));
  const auto weights_of = WeightsByVariable(graph, *plan);
  const absl::Status status =
      session.OnEachRank([&](RankVariables& rank) -> absl::Status {
        for (const VariableShard& shard : rank.shards()) {
          const auto weights = weights_of.find(shard.variable);
          if (weights == weights_of.end()) continue;
          MTF_ASSIGN_OR_RETURN(HostTensor value,
                               plan->files->Read(*weights->second, shard.shape,
                                                 ValidRanges(shard)));
          // A parameter is the rounded value of its master copy.
          const VariableInfo& info = graph.variables()[shard.variable];
          if (info.master >= 0) {
            value = ConvertedTo(std::move(value),
                                graph.variables()[info.master].dtype);
          }
          MTF_RETURN_IF_ERROR(
              rank.Write(shard, ConvertedTo(std::move(value), shard.dtype)));
        }
        return absl::OkStatus();
      });
  MTF_RETURN_IF_ERROR(session.Agree(status));
  return plan->report;
}

}  // namespace mtf::train
