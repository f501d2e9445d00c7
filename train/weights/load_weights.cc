// SPDX-License-Identifier: Apache-2.0
#include "train/weights/load_weights.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layouts/text_items.h"
#include "mtf/exceptions.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "train/weights/set_parameters.h"
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
  if (options.partial) {
    for (nn::ParameterWeights& weights : plan.weights) weights.copies.clear();
  }
  return plan;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> LoadedVariables(
    const Graph& graph, const nn::WeightMap& map, const std::string& path,
    const LoadWeightsOptions& options) {
  MTF_ASSIGN_OR_RETURN(const LoadPlan plan,
                       PlanLoad(graph, map, path, options));
  std::vector<std::string> names;
  for (const auto& [id, weights] : WeightsByVariable(graph, plan.weights)) {
    names.push_back(graph.variables()[id].name);
  }
  return names;
}

absl::StatusOr<LoadedWeights> LoadWeights(Session& session,
                                          const nn::WeightMap& map,
                                          const std::string& path,
                                          const LoadWeightsOptions& options) {
  const Graph& graph = session.graph();
  absl::StatusOr<LoadPlan> plan = LoadPlan();
  MTF_RETURN_IF_ERROR(session.Agree(CatchExceptions([&] {
    plan = PlanLoad(graph, map, path, options);
    return plan.status();
  })));
  MTF_RETURN_IF_ERROR(SetParameters(session, *plan->files, plan->weights));
  return plan->report;
}

}  // namespace mtf::train
