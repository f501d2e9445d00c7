// SPDX-License-Identifier: Apache-2.0
#include "planning/cost/few_layers.h"

#include <utility>

#include "absl/types/span.h"
#include "mtf/status.h"

namespace mtf::internal {

FewLayers KeepFew(const RepeatedLayers& layers, std::vector<int> kept) {
  FewLayers few;
  few.representatives = layers.Representatives(kept);
  for (int run = 0; run < layers.num_runs(); ++run) {
    few.left_out.push_back(layers.repeats(run) - kept[run]);
  }
  few.positions = layers.Positions(kept);
  few.left_out_variables = layers.LeftOutVariables(few.representatives);
  few.left_out_layers = layers.LeftOutLayers(kept);
  few.kept = std::move(kept);
  return few;
}

absl::StatusOr<Program> LowerFewLayers(const Graph& graph,
                                       const LayoutBinding& binding,
                                       const Targets& targets,
                                       const FewLayers* few,
                                       const LowerOptions& options) {
  EmitOptions emit = {.attention = options.attention};
  if (few != nullptr) emit.representatives = few->representatives;
  MTF_ASSIGN_OR_RETURN(Program program,
                       EmitProgram(graph, binding, targets, emit));
  return RunPasses(std::move(program), options);
}

}  // namespace mtf::internal
