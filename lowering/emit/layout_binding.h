// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_EMIT_LAYOUT_BINDING_H_
#define LOWERING_EMIT_LAYOUT_BINDING_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "layouts/layout_rules.h"
#include "layouts/mesh.h"
#include "layouts/offload_rules.h"
#include "layouts/tensor_layout.h"
#include "mtf/graph.h"

namespace mtf {

// Rules bound to a graph and a mesh. All programs of a graph share one binding,
// so that variables have the same layout in each of them.
struct LayoutBinding {
  Mesh mesh;
  ResolvedRules rules;
  Grains grains;
  OffloadRules offload;
  // The budget of the rules. Lower ignores it; callers that run or explain a
  // step check it (CheckBudget).
  Budget budget;
};

// The dimensions of a graph, collected once for callers that bind it often.
struct DimensionTable {
  std::vector<std::string> names;  // in the order of first use
  absl::flat_hash_set<std::string> variable_names;  // those of variables
  std::vector<std::pair<std::string, std::string>> tied;
  std::vector<ScopeDimensions> scopes;  // by number
  std::vector<OffloadVariable> variables;
};
// The kind of a variable, as the section [offload] selects it.
OffloadKind OffloadKindOf(const VariableInfo& variable);

DimensionTable DimensionsOf(const Graph& graph);

// Resolves `rules` on `mesh` for dimensions collected by DimensionsOf. Searches
// call this many times. The budget of the binding is not set.
absl::StatusOr<LayoutBinding> BindDimensions(const DimensionTable& dimensions,
                                             const Mesh& mesh,
                                             const LayoutRules& rules,
                                             bool strict = false);

// Resolves `rules` on `mesh` for every program of `graph`. Returns the graph's
// first error, or the errors and notices of ResolvedRules::Resolve. The budget
// of the rules is kept, not checked: callers that run or explain a step use
// BindLayoutAndBudget of planning/cost/check_budget.h.
absl::StatusOr<LayoutBinding> BindLayout(const Graph& graph, const Mesh& mesh,
                                         const LayoutRules& rules,
                                         bool strict = false);

}  // namespace mtf

#endif  // LOWERING_EMIT_LAYOUT_BINDING_H_
