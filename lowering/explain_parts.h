// SPDX-License-Identifier: Apache-2.0
//
// What the parts of an explanation have in common (lowering/explain.h).
#ifndef LOWERING_EXPLAIN_PARTS_H_
#define LOWERING_EXPLAIN_PARTS_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lowering/count_costs.h"
#include "lowering/estimate_time.h"
#include "lowering/explain.h"
#include "lowering/plan_buffers.h"
#include "lowering/plan_for_machine.h"

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
// Whether `name` is of a layer; `before` and `number` as above.
bool FindLayer(absl::string_view name, absl::string_view* before, int* number);

// Items that are equal but for the layer they are of.
struct Fold {
  std::string name;    // "layer_0..11/attention"
  std::string layers;  // "0..11", or ""
  std::vector<int> members;
};
// Folds `count` items, in the order in which the first of each comes.
// `name_of` and `key_of` tell the name of item i and all else that has to be
// equal. What is of no layer stays alone.
using TextOf = absl::FunctionRef<std::string(size_t)>;
std::vector<Fold> FoldLayers(size_t count, TextOf name_of, TextOf key_of);

// When a value of the arena holds its memory: places of instructions.
struct Lifetime {
  int value = -1;  // who owns the memory
  int maker = 0;
  int begin = 0;
  int end = 0;  // the last instruction that needs it
  int64_t bytes = 0;
};
// The lifetimes of the plan of a program, in the order of their begin. Values
// that share memory, views and what works in place, are one after the other.
// `groups` are those of the plan; without them they are looked for (PlanOf).
std::vector<Lifetime> Lifetimes(const Program& program,
                                absl::Span<const FusedGroup> groups);
std::vector<Lifetime> Lifetimes(const Program& program);

// The bytes of a value on each rank, whatever passes have run.
int64_t LocalBytes(const Program& program, int value);

int64_t MemoryBytes(const Program& program);

// What each value is for, as far as it has memory of its own, by value.
std::vector<MemoryKind> FindPurposes(const Program& program);

// `plan` is that of `program` (PlanOf). What a device has is left out.
ExplainedMemory ExplainMemory(const Program& program,
                              const MachinePlan& plan = {});

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
std::vector<int> RulesBehind(const Rules& rules, const Program& program,
                             const Instruction& instruction);

// The rule with its section, unless that is the default: "[parameters] io:x".
std::string InSection(const LayoutRule& rule);
// Whether a rule cuts anything on this mesh.
bool Cuts(const LayoutRule& rule, const Mesh& mesh);

// Which rules do something in `program`, but not yet what they save.
std::vector<ExplainedRule> ExplainUses(const LayoutBinding& binding,
                                       const Rules& rules,
                                       const Program& program);

// "1.23 ms", "45.6 us", "7.89 s"; "12.3 GFLOP"; "45.6 MiB".
std::string SecondsText(double seconds);
std::string FlopsText(double flops);
std::string BytesText(double bytes);

}  // namespace mtf::internal

#endif  // LOWERING_EXPLAIN_PARTS_H_
