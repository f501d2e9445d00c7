// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_SEARCH_TEXT_H_
#define TRAIN_LOOP_SEARCH_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "layouts/budget.h"
#include "layouts/layout_rules.h"
#include "layouts/mesh.h"
#include "lowering/lower.h"
#include "mtf/graph.h"
#include "planning/machine/machine.h"

namespace mtf::train {

// What --search looks for: layouts of a request on a mesh.
struct SearchQuestion {
  const Graph& graph;
  Targets targets;
  Mesh mesh;
  const Machine& machine;
  LayoutRules present;  // the layout of the flags, for comparison
  Budget budget;        // in addition to that of `present`
  bool strict = false;
};

// Searches for the fastest layouts (planning/search/search_layouts.h) within
// the memory of the machine and the budgets. Returns a table of them and of the
// present layout, with step time, bytes sent and memory, and below it each
// layout as the flag --layout takes it; tables have lines of at most `width`
// characters.
//
// kInvalidArgument for a mesh of one device; otherwise the errors of
// SearchRules and Explain.
absl::StatusOr<std::string> SearchText(const SearchQuestion& question,
                                       int width);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_SEARCH_TEXT_H_
