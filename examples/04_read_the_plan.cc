// SPDX-License-Identifier: Apache-2.0
//
// Lesson 4: read the plan.
//
// Before anything runs, graph, mesh and layout are lowered to a program: one
// list of instructions that every device executes. Its text form shows what a
// step will send, how many bytes, and which line of the user's program causes
// it.
//
//   %y : f32[batch:8/rows, io:4] unreduced{cols} = einsum(%h, %w2)
//
// says that y has the dimensions batch and io, that batch (8) is sharded over
// the mesh axis "rows", and that y is unreduced over "cols": each device holds
// a summand, because y sums over a dimension that is sharded over "cols". A
// later
//
//   %y.sum : f32[batch:8/rows, io:4] = all_reduce(%y) sum over{cols}
//
// adds the summands. All devices run the same instructions, each on its own
// shards.
//
// This lesson prints the program of a two-layer network after the first and the
// last pass, and then the explanation that --explain prints for every program.
#include <iostream>
#include <string>

#include "lowering/lower.h"
#include "lowering/program/count_costs.h"
#include "lowering/program/print_program.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "nn/optimizers/sgd.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "planning/cost/check_budget.h"
#include "planning/explain/explain.h"
#include "planning/machine/machine.h"
#include "train/loop/run_main.h"
#include "train/session/mesh_and_layout.h"

namespace mtf {
namespace {

absl::Status Lesson() {
  const Dimension batch{"batch", 8}, io{"io", 4}, hidden{"hidden", 16};
  Graph graph;
  Tensor x = Input(graph, "x", kFloat32, {batch, io});
  Tensor w1 = Variable(graph, "w1", RandomNormal(graph, {io, hidden}, 0, 1));
  Tensor w2 = Variable(graph, "w2", RandomNormal(graph, {hidden, io}, 0, 1));
  Tensor h = Relu(Einsum({x, w1}, {batch, hidden}));
  Tensor y = Einsum({h, w2}, {batch, io});
  Tensor loss = ReduceMean(Square(y - x), {});
  Tensor step = nn::Sgd({.learning_rate = 0.1}).Minimize(loss);

  // Lowering needs no devices: the mesh could have four thousand.
  MTF_ASSIGN_OR_RETURN(
      const train::MeshAndLayout placement,
      train::ParseMeshAndLayout("rows:2,cols:2", "batch:rows, hidden:cols", 0));
  MTF_ASSIGN_OR_RETURN(
      const LayoutBinding binding,
      BindLayoutAndBudget(graph, placement.mesh, placement.rules));
  Targets targets;
  targets.fetches = {loss};
  targets.updates = {step};

  // Lowering runs a table of passes, each of which does one thing. After the
  // first, changes of layout are still abstract: "reshard" instructions.
  std::string first_text;
  LowerOptions options;
  options.after_pass = [&first_text](absl::string_view pass,
                                     const Program& program) {
    if (first_text.empty()) {
      first_text = "After " + std::string(pass) + ":\n" + PrintProgram(program);
    }
  };
  MTF_ASSIGN_OR_RETURN(const Program program,
                       Lower(graph, binding, targets, options));
  std::cout << first_text << "\n";

  // After the last they are collectives, and shapes are per device: "=4" in
  // "batch:8/rows=4" is the extent of a shard.
  std::cout << "After the last pass:\n" << PrintProgram(program) << "\n";

  // The explanation has a line for each collective with its cause: the tensor,
  // the dimension, the rule of the layout and the line of the program above.
  // Bytes are exact: the communicator counts the same number at run time. Times
  // are estimates for the given machine.
  MTF_ASSIGN_OR_RETURN(const Machine machine, Machine::Load("h100_nvlink_ib"));
  MTF_ASSIGN_OR_RETURN(
      const Explanation explanation,
      Explain(graph, placement.mesh, placement.rules, targets, machine));
  std::cout << ExplainText(explanation, 120) << "\n";

  // The sum over "hidden" in `y` causes the collective over "cols"; the
  // gradients of w1 and w2, which sum over "batch", cause those over "rows".
  for (const CollectiveCost& cost : ListCollectives(program)) {
    std::cout << CollectiveName(cost.kind) << " over "
              << program.mesh.AxisNames(cost.axes) << " because of "
              << cost.rule << ", at " << cost.site.ToString() << "\n";
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  return mtf::train::RunMain(argc, argv, "Lesson 4: read the plan.",
                             &mtf::Lesson);
}
