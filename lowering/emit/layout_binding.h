// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_EMIT_LAYOUT_BINDING_H_
#define LOWERING_EMIT_LAYOUT_BINDING_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "layouts/layout_rules.h"
#include "layouts/mesh.h"
#include "layouts/tensor_layout.h"
#include "lowering/emit/second_names.h"
#include "mtf/graph.h"

namespace mtf {

// Rules bound to a graph and a mesh: what every program of that graph shares,
// so that variables have one layout whichever program touches them.
struct LayoutBinding {
  Mesh mesh;
  ResolvedRules rules;
  Grains grains;
  // Of the rules; whoever plans a step to run it holds the program against it
  // (CheckBudget). Lower does not.
  Budget budget;
  // Second names without a rule of their own, and what they are called in
  // programs instead.
  absl::flat_hash_map<std::string, std::string> first_names = {};
};

// All that BindLayout wants to know of a graph, for who binds it often.
struct DimensionTable {
  std::vector<std::string> names;  // in the order of first use
  std::vector<std::pair<std::string, std::string>> tied;
  NamePairs second_names;  // SecondNamesOf
};
DimensionTable DimensionsOf(const Graph& graph);

// Resolves `rules` on `mesh` for dimensions already collected by DimensionsOf:
// what searches call many times. Budget and notices about it are left out.
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
