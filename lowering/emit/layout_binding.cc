// SPDX-License-Identifier: Apache-2.0
#include "lowering/emit/layout_binding.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"

namespace mtf {

OffloadKind OffloadKindOf(const VariableInfo& variable) {
  switch (variable.kind) {
    case VariableKind::kParameter:
      return OffloadKind::kParameters;
    case VariableKind::kOptimizerState:
      return OffloadKind::kOptimizer;
    case VariableKind::kState:
      return OffloadKind::kState;
  }
  return OffloadKind::kState;
}

DimensionTable DimensionsOf(const Graph& graph) {
  DimensionTable table;
  for (const std::string& scope : graph.scopes()) {
    table.scopes.push_back({scope, {}});
  }
  absl::flat_hash_set<absl::string_view> seen;
  absl::flat_hash_set<std::pair<std::string, std::string>> ties;
  // Copies of a shape share their dimensions.
  absl::flat_hash_set<const std::vector<Dimension>*> shapes;
  absl::flat_hash_set<std::pair<int, const std::vector<Dimension>*>> in_scopes;
  const auto add_to_scope = [&](int scope, const Shape& shape) {
    if (!in_scopes.insert({scope, &shape.dims()}).second) return;
    for (const Dimension& dim : shape) {
      table.scopes[scope].dimensions.insert(dim.name);
    }
  };
  for (const auto& operation : graph.operations()) {
    for (int i = 0; i < operation->num_results(); ++i) {
      const Shape& shape = operation->shape(i);
      add_to_scope(operation->scope(), shape);
      if (!shapes.insert(&shape.dims()).second) continue;
      for (const Dimension& dim : shape) {
        if (seen.insert(dim.name).second) table.names.push_back(dim.name);
      }
    }
    for (const Tensor& input : operation->inputs()) {
      add_to_scope(operation->scope(), input.shape());
    }
    // The layers of a model tie the same dimensions.
    for (auto& tie : operation->TiedDimensions()) {
      if (ties.insert(tie).second) table.tied.push_back(std::move(tie));
    }
  }
  for (const VariableInfo& variable : graph.variables()) {
    table.variables.push_back({variable.name, OffloadKindOf(variable)});
    for (const Dimension& dim : variable.shape) {
      table.variable_names.insert(dim.name);
    }
  }
  return table;
}

absl::StatusOr<LayoutBinding> BindDimensions(const DimensionTable& dimensions,
                                             const Mesh& mesh,
                                             const LayoutRules& rules,
                                             bool strict) {
  LayoutBinding binding;
  binding.mesh = mesh;
  MTF_ASSIGN_OR_RETURN(
      binding.rules,
      ResolvedRules::Resolve(rules, mesh, dimensions.names, strict,
                             &dimensions.variable_names, dimensions.scopes));
  binding.offload = rules.offload();
  std::vector<std::string> notices;
  MTF_RETURN_IF_ERROR(
      binding.offload.CheckItems(dimensions.variables, strict, notices));
  for (std::string& notice : notices) {
    binding.rules.AddNotice(std::move(notice));
  }
  binding.grains = Grains(mesh);
  for (const std::string& dimension : dimensions.names) {
    binding.grains.Allow(dimension, binding.rules.AllAxesOf(dimension));
  }
  for (const auto& [a, b] : dimensions.tied) binding.grains.Tie(a, b);
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
