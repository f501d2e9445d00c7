// SPDX-License-Identifier: Apache-2.0
#include "lowering/emit/layout_binding.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"

namespace mtf {

DimensionTable DimensionsOf(const Graph& graph) {
  DimensionTable table;
  absl::flat_hash_set<absl::string_view> seen;
  absl::flat_hash_set<std::pair<std::string, std::string>> ties;
  // Copies of a shape share their dimensions.
  absl::flat_hash_set<const std::vector<Dimension>*> shapes;
  for (const auto& operation : graph.operations()) {
    for (int i = 0; i < operation->num_results(); ++i) {
      if (!shapes.insert(&operation->shape(i).dims()).second) continue;
      for (const Dimension& dim : operation->shape(i)) {
        if (seen.insert(dim.name).second) table.names.push_back(dim.name);
      }
    }
    // The layers of a model tie the same dimensions.
    for (auto& tie : operation->TiedDimensions()) {
      if (ties.insert(tie).second) table.tied.push_back(std::move(tie));
    }
  }
  for (const VariableInfo& variable : graph.variables()) {
    for (const Dimension& dim : variable.shape) {
      table.variable_names.insert(dim.name);
    }
  }
  table.second_names = SecondNamesOf(graph);
  return table;
}

absl::StatusOr<LayoutBinding> BindDimensions(const DimensionTable& dimensions,
                                             const Mesh& mesh,
                                             const LayoutRules& rules,
                                             bool strict) {
  LayoutBinding binding;
  binding.mesh = mesh;
  MTF_ASSIGN_OR_RETURN(binding.rules, ResolvedRules::Resolve(
                                          rules, mesh, dimensions.names, strict,
                                          &dimensions.variable_names));
  std::vector<bool> ruled;
  for (const auto& [second, first] : dimensions.second_names) {
    ruled.push_back(binding.rules.HasRule(second));
  }
  binding.first_names = FirstNames(dimensions.second_names, ruled);
  for (const auto& [second, given] : dimensions.second_names) {
    const auto first = binding.first_names.find(second);
    if (first == binding.first_names.end()) continue;
    binding.rules.CopyRules(second, first->second);
  }
  binding.grains = Grains(mesh);
  for (const std::string& dimension : dimensions.names) {
    binding.grains.Allow(dimension, binding.rules.AllAxesOf(dimension));
  }
  for (const auto& [a, b] : dimensions.tied) binding.grains.Tie(a, b);
  // Reshapes do not tie dimensions of size 1.
  for (const auto& [second, given] : dimensions.second_names) {
    const auto first = binding.first_names.find(second);
    if (first == binding.first_names.end()) continue;
    binding.grains.Tie(first->second, second);
  }
  return binding;
}

absl::StatusOr<LayoutBinding> BindLayout(const Graph& graph, const Mesh& mesh,
                                         const LayoutRules& rules,
                                         bool strict) {
  MTF_RETURN_IF_ERROR(graph.status());
  MTF_ASSIGN_OR_RETURN(
      LayoutBinding binding,
      BindDimensions(DimensionsOf(graph), mesh, rules, strict));
  binding.budget = rules.budget();
  return binding;
}

}  // namespace mtf
