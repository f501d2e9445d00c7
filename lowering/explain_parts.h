// SPDX-License-Identifier: Apache-2.0
//
// What the parts of an explanation have in common (lowering/explain.h).
#ifndef LOWERING_EXPLAIN_PARTS_H_
#define LOWERING_EXPLAIN_PARTS_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "lowering/estimate_time.h"
#include "lowering/explain.h"

namespace mtf::internal {

// The module that an operation belongs to: the first part of its name, and of
// a numbered layer the second too.
//
//   layer_0/attention/output/einsum   layer_0/attention
//   embedding/gather                  embedding
//   einsum_1                          (top)
std::string ModuleOf(absl::string_view operation);

// "layer_0/attention/output/einsum" as "layer_", 0 and "/attention/...": the
// number of the first scope that has one, or -1 and all of the name behind.
struct LayerName {
  std::string before;
  int layer = -1;
  std::string behind;
};
LayerName SplitLayer(absl::string_view name);

// The bytes of a value on each rank, whatever passes have run.
int64_t LocalBytes(const Program& program, int value);

// What each variable is for, by name.
using VariableKinds = absl::flat_hash_map<std::string, VariableKind>;
VariableKinds KindsOf(const Graph& graph);
// From the program alone: state is what only updates read.
VariableKinds GuessKinds(const Program& program);

int64_t MemoryBytes(const Program& program);
ExplainedMemory ExplainMemory(const Program& program,
                              const VariableKinds& kinds,
                              const Machine& machine);

// The einsums of a program without their times.
std::vector<ExplainedEinsum> ExplainEinsums(const Program& program);

StepCost CostOf(const Program& program, const StepEstimate& estimate);

// Fills in what a graph and its rules add to the explanation of `program`: the
// use of each rule, and the changes of rules with what each would do.
void ExplainRules(const Graph& graph, const LayoutBinding& binding,
                  const LayoutRules& rules, const Targets& targets,
                  const Program& program, const Machine& machine,
                  const ExplainOptions& options, Explanation& explanation);

// "1.23 ms", "45.6 us", "7.89 s"; "12.3 GFLOP"; "45.6 MiB".
std::string SecondsText(double seconds);
std::string FlopsText(double flops);
std::string BytesText(double bytes);

}  // namespace mtf::internal

#endif  // LOWERING_EXPLAIN_PARTS_H_
