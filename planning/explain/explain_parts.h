// SPDX-License-Identifier: Apache-2.0
//
// Functions shared by the sources of planning/explain/explain.h.
#ifndef PLANNING_EXPLAIN_EXPLAIN_PARTS_H_
#define PLANNING_EXPLAIN_EXPLAIN_PARTS_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lowering/passes/plan_buffers.h"
#include "lowering/program/count_costs.h"
#include "planning/cost/estimate_time.h"
#include "planning/cost/layer_names.h"
#include "planning/cost/lifetimes.h"
#include "planning/explain/explain.h"
#include "planning/machine/units.h"

namespace mtf::internal {

// The einsums of a program; `seconds` is not set.
std::vector<ExplainedEinsum> ExplainEinsums(const Program& program);

// The part of an explanation that needs neither graph nor rules: everything but
// `layout`, `rules`, `changes` and the changes of collectives. `plan` is the
// plan of `program` on `machine`.
Explanation ExplainLowered(const Program& program, const Machine& machine);

// The phase of each instruction. Without gradients all belong to the forward
// pass. The backward pass begins with the first gradient and has all that
// gradients need from then on, such as values computed again. The update is
// what only new values of variables need.
std::vector<StepPhase> PhasesOf(const Program& program);

// Explanation::batch and Explanation::precision.
std::string BatchText(const Program& program);
std::string PrecisionText(const Program& program,
                          const std::vector<ExplainedEinsum>& einsums);

// Adds up the cost of a step.
StepCost CostOf(const Program& program, const StepEstimate& estimate,
                absl::Span<const CollectiveCost> collectives);

// ExplainedCollective::no_change of a collective without a known cause. Only
// programs parsed from text lack causes.
inline constexpr char kNoRule[] = "the program does not say what causes it";

using Rules = std::vector<LayoutRule>;

// The rules that cause `instruction`, as indices into `rules`, in order.
std::vector<int> RulesCausing(const Rules& rules, const Program& program,
                              const Instruction& instruction);

// Whether an axis of `rule` exists in `mesh` with a size above 1.
bool ShardsOnMesh(const LayoutRule& rule, const Mesh& mesh);

// Which of `rules` take effect in `program`, and why the others do not.
// `dropped` and `saved` are not set.
std::vector<ExplainedRule> ExplainRuleUses(const LayoutBinding& binding,
                                           const Rules& rules,
                                           const Program& program);

}  // namespace mtf::internal

#endif  // PLANNING_EXPLAIN_EXPLAIN_PARTS_H_
