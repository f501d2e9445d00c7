// SPDX-License-Identifier: Apache-2.0
//
// What would happen under other rules: the step is lowered again, once for each
// change, and every collective and rule asks the same results.
#ifndef PLANNING_EXPLAIN_EXPLAIN_CHANGES_H_
#define PLANNING_EXPLAIN_EXPLAIN_CHANGES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lowering/passes/plan_for_machine.h"
#include "planning/explain/explain_candidates.h"
#include "planning/explain/explain_parts.h"
#include "planning/explain/explain_traffic.h"
#include "planning/explain/price_rules.h"

namespace mtf::internal {

// A change whose rules are legal, and what it leads to.
struct TriedChange {
  RuleCandidate candidate;
  RuleChange change;
  Traffic traffic;
};

struct ChangeTrials {
  // The step under the present rules, lowered as it is for the changes.
  RuleChange present;
  Traffic traffic;
  // First those of a single rule, then those of several at once that remove
  // what no single one does.
  std::vector<TriedChange> tried;
  size_t singles = 0;
  // Whether few layers stand for all, and then the names of what is left out,
  // each with that of what stands in for it.
  bool few_layers = false;
  NameMap names;
};

// Tries every change on `program`, which is the step lowered as it is bound.
ChangeTrials TryChanges(const ChangedStep& step, const LayoutBinding& binding,
                        const Program& program, const MachinePlan& plan);

// The same with few of the layers that repeat themselves (RepeatedLayers), as
// many as it takes for the program to repeat itself (deep_model_cost.h), and
// with all of them where two thirds would not do. Only a graph too large for
// that has changes whose cost is `estimated`. Nothing where few layers would
// not save a third of the work, nor where they do not tell what the step costs
// as it is and all are not many. Leaves one core to who lowers all layers
// meanwhile. The errors are those of Lower.
absl::StatusOr<std::optional<ChangeTrials>> TryChangesOnFewLayers(
    const ChangedStep& step, const LayoutBinding& binding);

// Tells the collectives and rules of `explanation`, which is that of
// `program`, what was found.
void ReportChanges(const ChangeTrials& trials, const Rules& rules,
                   const Program& program, Explanation& explanation);

}  // namespace mtf::internal

#endif  // PLANNING_EXPLAIN_EXPLAIN_CHANGES_H_
