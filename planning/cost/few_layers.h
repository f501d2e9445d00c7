// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_COST_FEW_LAYERS_H_
#define PLANNING_COST_FEW_LAYERS_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lowering/emit/emit_program.h"
#include "lowering/emit/layout_binding.h"
#include "lowering/lower.h"
#include "lowering/program/program.h"
#include "mtf/graph.h"
#include "planning/cost/repeated_layers.h"

namespace mtf::internal {

// The layers of a deep model that are lowered, and those that are left out
// because others have the same operations.
struct FewLayers {
  std::vector<int> kept, left_out;  // numbers of repeats, by run
  // RepeatedLayers::Representatives of `kept`.
  std::vector<int> representatives;
  // RepeatedLayers::Positions of `kept`.
  absl::flat_hash_map<absl::string_view, RepeatedLayers::LayerPosition>
      positions;
  // RepeatedLayers::LeftOutVariables of `representatives`.
  absl::flat_hash_set<absl::string_view> left_out_variables;
  // RepeatedLayers::LeftOutLayers of `kept`.
  LayerCounts left_out_layers;
};

// Keeps `kept` repeats of each run of equal layers and leaves out the others.
FewLayers KeepFew(const RepeatedLayers& layers, std::vector<int> kept);

// Lowers a step with the layers that `few` keeps; null: with all. The result is
// the program of a model with that many layers. The cost of the deep model
// follows from it by CostOfAllLayers, or by linear extrapolation from two such
// programs.
absl::StatusOr<Program> LowerFewLayers(const Graph& graph,
                                       const LayoutBinding& binding,
                                       const Targets& targets,
                                       const FewLayers* few,
                                       const LowerOptions& options = {});

}  // namespace mtf::internal

#endif  // PLANNING_COST_FEW_LAYERS_H_
