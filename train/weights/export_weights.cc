// SPDX-License-Identifier: Apache-2.0
//
// ExportWeights.
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "layouts/text_items.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "nn/layers/adapter.h"
#include "train/weights/adapter_product.h"
#include "train/weights/load_weights.h"
#include "train/weights/weight_export.h"

namespace mtf::train {
namespace {

// No tensor of a published model has a prompt.
absl::Status CheckNoPrompt(const Graph& graph, absl::string_view scope) {
  for (const VariableInfo& info : graph.variables()) {
    absl::string_view name = info.name;
    if (info.kind != VariableKind::kParameter || !nn::IsPrompt(info)) continue;
    if (!scope.empty() && !(absl::ConsumePrefix(&name, scope) &&
                            absl::ConsumePrefix(&name, "/"))) {
      continue;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "the prompt ", Quoted(info.name), " is not part of published weights",
        DetailLine("help",
                   "set .merge_adapters = false (mtf convert: "
                   "--merge_adapters=false) to export the model without its "
                   "prompt and adapters")));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ExportWeights(Session& session, const nn::WeightMap& map,
                           const std::string& path,
                           const ExportWeightsOptions& options) {
  const Graph& graph = session.graph();
  if (options.merge_adapters) {
    MTF_RETURN_IF_ERROR(CheckNoPrompt(graph, options.scope));
  }
  MTF_ASSIGN_OR_RETURN(std::vector<nn::ParameterWeights> weights,
                       nn::ResolveWeights(graph, map, options.scope));
  WeightExport exported(session, map, path,
                        {.weights = weights,
                         .config = options.config,
                         .dtype = options.dtype,
                         .max_file_bytes = options.max_file_bytes});
  return exported.Run([&]() -> absl::Status {
    std::vector<const nn::ParameterWeights*> plain;
    std::vector<
        std::pair<const nn::ParameterWeights*, nn::internal::AdapterVariables>>
        adapted;
    for (const nn::ParameterWeights& each : weights) {
      const std::optional<nn::internal::AdapterVariables> adapter =
          nn::internal::FindAdapter(graph, graph.variables()[each.variable]);
      if (options.merge_adapters && adapter.has_value()) {
        adapted.emplace_back(&each, *adapter);
      } else {
        plain.push_back(&each);
      }
    }
    absl::Status status = exported.Write(plain);
    // One adapter after the other, so that a process holds one.
    for (const auto& [kernel, adapter] : adapted) {
      // A process with an error reads on: the others wait for it.
      const auto product = AdapterProduct::Read(
          session, graph.variables()[kernel->variable], adapter);
      MTF_RETURN_IF_ERROR(product.status());
      if (status.ok()) status = exported.Write({kernel}, &*product);
    }
    return status;
  });
}

}  // namespace mtf::train
