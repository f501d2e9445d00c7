// SPDX-License-Identifier: Apache-2.0
//
// What the parts of an explanation have in common (planning/explain/explain.h).
#ifndef PLANNING_EXPLAIN_EXPLAIN_PARTS_H_
#define PLANNING_EXPLAIN_EXPLAIN_PARTS_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lowering/passes/plan_buffers.h"
#include "lowering/passes/plan_for_machine.h"
#include "lowering/program/count_costs.h"
#include "planning/cost/estimate_time.h"
#include "planning/cost/layer_names.h"
#include "planning/cost/lifetimes.h"
#include "planning/explain/explain.h"
#include "planning/machine/units.h"

namespace mtf::internal {

// The einsums of a program without their times.
std::vector<ExplainedEinsum> ExplainEinsums(const Program& program);

// Everything that needs neither graph nor rules.
Explanation ExplainLowered(const Program& program, const Machine& machine,
                           const MachinePlan& plan);

StepCost CostOf(const Program& program, const StepEstimate& estimate,
                absl::Span<const CollectiveCost> collectives);

// Why no change removes a collective of text that leaves out causes. What is
// lowered has a rule for each.
inline constexpr char kNoRule[] = "the program does not say what causes it";

using Rules = std::vector<LayoutRule>;

// The rules of `rules` behind an instruction, in order.
std::vector<int> RulesCausing(const Rules& rules, const Program& program,
                              const Instruction& instruction);

// Whether a rule cuts anything on this mesh.
bool ShardsOnMesh(const LayoutRule& rule, const Mesh& mesh);

// Which rules do something in `program`, but not yet what they save.
std::vector<ExplainedRule> ExplainRuleUses(const LayoutBinding& binding,
                                           const Rules& rules,
                                           const Program& program);

}  // namespace mtf::internal

#endif  // PLANNING_EXPLAIN_EXPLAIN_PARTS_H_
