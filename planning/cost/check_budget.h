// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_COST_CHECK_BUDGET_H_
#define PLANNING_COST_CHECK_BUDGET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "layouts/budget.h"
#include "layouts/mesh.h"
#include "lowering/emit/layout_binding.h"
#include "lowering/program/program.h"
#include "mtf/graph.h"

namespace mtf {

// What a program uses of one line of a budget.
struct BudgetUse {
  // A collective that counts towards the line.
  struct Collective {
    int number = 0;      // index into ListCollectives
    int64_t bytes = 0;   // sent for the tensors that count
    std::string tensor;  // these tensors: "layer_0/ffn/einsum and 2 more"
  };

  BudgetLine line;
  std::vector<Collective> collectives;  // in program order
  int64_t bytes = 0;  // sent by each rank per step, or the memory of a rank
  bool exceeded = false;
};

// Measures a lowered program (all passes run) against each line of `budget`.
//
// A collective is in a scope if its operation is, or a tensor that it moves, or
// the variable that this tensor is the value of. In a bucketed reduction only
// the tensors in the scope count. `of parameters` selects tensors that are the
// value of a parameter as read or as written, not gradients.
// ProgramVariable::section distinguishes parameters from optimizer state.
// Memory is that of variables and arena.
//
// Lines about collectives apply to steps only: programs with an input, or that
// both read and write variables. Programs that initialize variables or return
// them to the host use nothing, nor do the gathers of a step's results for the
// host.
std::vector<BudgetUse> MeasureBudget(const Program& program,
                                     const Budget& budget);

// Returns kResourceExhausted if `program` uses more than `budget` allows. The
// message has the first exceeded line with its origin and both numbers, then
// the largest collectives with tensor, dimension, axes, rule and the user's
// line, or the largest tensors alive at the peak of memory.
//
//   MTF_ASSIGN_OR_RETURN(Program program, Lower(graph, binding, targets));
//   MTF_RETURN_IF_ERROR(CheckBudget(program, binding.budget));
absl::Status CheckBudget(const Program& program, const Budget& budget);

// Returns a notice for each line without effect: `mesh` has none of its axes,
// or no operation of `graph` is in its scope. Returns kInvalidArgument if the
// name is probably a misspelling of an existing one, or for every such line if
// `strict`.
absl::StatusOr<std::vector<std::string>> CheckBudgetNames(const Budget& budget,
                                                          const Mesh& mesh,
                                                          const Graph& graph,
                                                          bool strict);

// BindLayout (lowering/emit/layout_binding.h), plus the notices and errors of
// CheckBudgetNames for the budget of `rules`.
absl::StatusOr<LayoutBinding> BindLayoutAndBudget(const Graph& graph,
                                                  const Mesh& mesh,
                                                  const LayoutRules& rules,
                                                  bool strict = false);

}  // namespace mtf

#endif  // PLANNING_COST_CHECK_BUDGET_H_
