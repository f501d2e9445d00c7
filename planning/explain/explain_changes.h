// SPDX-License-Identifier: Apache-2.0
//
// Changes of rules and their costs: the step is lowered again once for each
// change, and the explanations of all collectives and rules use the same
// results.
#ifndef PLANNING_EXPLAIN_EXPLAIN_CHANGES_H_
#define PLANNING_EXPLAIN_EXPLAIN_CHANGES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planning/explain/explain_candidates.h"
#include "planning/explain/explain_parts.h"
#include "planning/explain/explain_traffic.h"
#include "planning/explain/price_rules.h"

namespace mtf::internal {

// A change whose rules are legal, with its cost and traffic.
struct TriedChange {
  RuleCandidate candidate;
  RuleChange change;
  Traffic traffic;
};

struct ChangeTrials {
  // The step under the present rules, lowered in the same way as for the
  // changes.
  RuleChange present;
  Traffic traffic;
  // First changes of a single rule, then changes of several rules that remove
  // collectives that no single change removes.
  std::vector<TriedChange> tried;
  size_t singles = 0;
  // Whether few layers represent all. If so, `names` maps left out operations
  // to their representatives.
  bool few_layers = false;
  NameMap names;
};

// Tries every change. `program` is the step lowered with `binding`.
ChangeTrials TryChanges(const ChangedStep& step, const LayoutBinding& binding,
                        const Program& program);

// Like TryChanges, with few of the equal layers (RepeatedLayers): as many as
// the program needs to become periodic (deep_model_cost.h), or all if two
// thirds are not enough. Only in a graph too large to be lowered with all
// layers for each change are costs `estimated`. Returns nullopt if few layers
// would not save a third of the work, or if they do not determine the cost of
// the present step and lowering all is fast. Leaves one core free for a caller
// that lowers all layers concurrently. The errors are those of Lower.
absl::StatusOr<std::optional<ChangeTrials>> TryChangesOnFewLayers(
    const ChangedStep& step, const LayoutBinding& binding);

// Adds the results to the collectives and rules of `explanation`, which
// explains `program`.
void ReportChanges(const ChangeTrials& trials, const Rules& rules,
                   const Program& program, Explanation& explanation);

}  // namespace mtf::internal

#endif  // PLANNING_EXPLAIN_EXPLAIN_CHANGES_H_
