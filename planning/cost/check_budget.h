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

// What a program spends of one line of a budget.
struct BudgetUse {
  // A collective that the line speaks of.
  struct Collective {
    int number = 0;      // in ListCollectives, from 0
    int64_t bytes = 0;   // of the tensors that the line speaks of
    std::string tensor;  // "layer_0/ffn/einsum", "... and 2 more": of these
  };

  BudgetLine line;
  std::vector<Collective> collectives;  // in the order of the program
  int64_t bytes = 0;  // sent by each rank in a step, or its memory
  bool exceeded = false;
};

// Measures a lowered program (all passes run) against each line of `budget`.
//
// A collective is in a scope when the operation that it is for is, or a tensor
// that it moves, or the variable that this tensor is the value of. Of
// reductions that go in one call only the tensors in the scope count. A tensor
// is one of parameters when it is a parameter as it was read or as it will be
// written, and nothing else: a gradient is not. Parameters and optimizer state
// are told apart by ProgramVariable::section. Memory is that of the variables
// and the arena.
//
// Lines on collectives are for steps: programs that take an input, or that
// read variables and write them. What only initializes variables, or moves them
// to the host, spends nothing of them; neither do the gathers that make whole
// what a step returns to the host.
std::vector<BudgetUse> MeasureBudget(const Program& program,
                                     const Budget& budget);

// OK, or kResourceExhausted where `program` spends more than `budget` allows:
// the first such line with its origin and both numbers, then what spends most,
// with tensor, dimension, axes, rule and the user's line, or the largest
// tensors that are alive at the peak of memory.
//
//   MTF_ASSIGN_OR_RETURN(Program program, Lower(graph, binding, targets));
//   MTF_RETURN_IF_ERROR(CheckBudget(program, binding.budget));
absl::Status CheckBudget(const Program& program, const Budget& budget);

// A notice for each line that can find nothing: `mesh` has none of its axes, or
// no operation of `graph` is in its scope. kInvalidArgument where the name is a
// likely misspelling of one that exists, or for any such line if `strict`.
absl::StatusOr<std::vector<std::string>> CheckBudgetNames(const Budget& budget,
                                                          const Mesh& mesh,
                                                          const Graph& graph,
                                                          bool strict);

// BindLayout (lowering/emit/layout_binding.h), with the notices and errors of
// CheckBudgetNames for the budget of `rules` beside its own.
absl::StatusOr<LayoutBinding> BindLayoutAndBudget(const Graph& graph,
                                                  const Mesh& mesh,
                                                  const LayoutRules& rules,
                                                  bool strict = false);

}  // namespace mtf

#endif  // PLANNING_COST_CHECK_BUDGET_H_
