// SPDX-License-Identifier: Apache-2.0
//
// Explains what a training step costs under a layout, before anything runs:
// each collective with the rule that causes it and the change that removes it,
// each einsum against its communication lower bound, and memory by purpose.
// docs/explain.md describes the output.
#ifndef PLANNING_EXPLAIN_EXPLAIN_H_
#define PLANNING_EXPLAIN_EXPLAIN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "layouts/layout_rules.h"
#include "layouts/mesh.h"
#include "lowering/lower.h"
#include "lowering/program/program.h"
#include "mtf/graph.h"
#include "planning/cost/memory_use.h"
#include "planning/cost/step_cost.h"
#include "planning/machine/machine.h"

namespace mtf {

// One collective of the program. Bytes and seconds are those of each rank.
struct ExplainedCollective {
  int number = 0;       // in program order, from 1
  int instruction = 0;  // index into Program::instructions
  std::string kind;     // "all_reduce"
  std::string axes;     // "data+model"
  int64_t group_size = 1;
  std::string tensor;         // "layer_0/ffn/einsum_1 and 2 more"
  std::string dimension;      // the dimension whose rule causes it, "d_ff"
  std::string rule;           // "d_ff:model"
  std::string rule_origin;    // "preset megatron:8"
  std::vector<int> rules;     // all rules that cause it, as indices into
                              // Explanation::rules
  std::string operation;      // the user's operation, "layer_0/ffn/einsum_1"
  std::string module;         // "layer_0/ffn"
  std::string site;           // "mlp.cc:41"
  int64_t bytes = 0;          // bytes that each rank sends
  double seconds = 0;         // duration of the collective
  double exposed = 0;         // part of `seconds` during which nothing computes
  bool asynchronous = false;  // the program overlaps it with compute
  // The cheapest rule change that removes this collective, as an index into
  // Explanation::changes. -1 if there is none; `no_change` then says why.
  int change = -1;
  std::string no_change;
  // Collectives that the same operation needs after the change but not before,
  // "all_reduce over model", or "".
  std::string instead;
};

// The number of matmul dimensions (of m, n and k) that are sharded.
enum class MatmulRegime : uint8_t { kNone, k1D, k2D, k3D };

struct ExplainedEinsum {
  int instruction = 0;
  std::string operation, module, site;
  std::string sharding;  // "[batch:8/data, d_ff:32/model] sum d_model"
  // Global sizes: `batch` products of [m, k] by [k, n].
  int64_t batch = 1, m = 1, n = 1, k = 1;
  double flops = 0;     // per rank, including padding and repeated work
  double repeated = 1;  // FLOPs of all ranks divided by those of one device
  double seconds = 0;
  MatmulRegime best = MatmulRegime::kNone;    // attains the lower bound
  MatmulRegime layout = MatmulRegime::kNone;  // under the layout's rules
  // Bytes that each rank receives through the collectives on the operands and
  // the result, and the lower bound on them (LowerBoundBytes).
  double moved_bytes = 0;
  double bound_bytes = 0;
};

// How the step computes attention.
struct ExplainedAttention {
  // Attentions that are one instruction, besides that of the gradient.
  int instructions = 0;
  // An attention that is composed of einsums and a softmax, though the machine
  // has instructions for others.
  struct Composed {
    std::string operation, module, site;
    std::string why;
  };
  std::vector<Composed> composed;
};

// A sum over all collectives (and instructions) of one kind, axis or module.
struct ExplainedTotal {
  std::string name;
  int64_t calls = 0;       // number of collectives
  int64_t bytes = 0;       // bytes that each rank sends
  double collectives = 0;  // seconds
  double exposed = 0;
  double compute = 0;  // seconds; set for modules only
  double flops = 0;    // per rank; set for modules only
};

// kShadowed: a rule of a section of variables overrides this rule wherever it
// applies.
enum class RuleUse : uint8_t { kUsed, kUnused, kShadowed };

struct ExplainedRule {
  std::string section;  // "default"
  std::string rule;     // "d_ff:model"
  std::string origin;
  RuleUse use = RuleUse::kUsed;
  std::string why;  // why the rule is not used
  // The change that drops this rule, as an index into Explanation::changes, or
  // -1.
  int dropped = -1;
  // Memory of a rank without the rule minus memory with it; parts may be
  // negative. Unknown if the layout is illegal without the rule, and for
  // ExplainProgram.
  std::optional<MemoryParts> saved;
};

struct ExplainedPadding {
  std::string dimension;
  int64_t size = 0, padded = 0;
};

// Whether the step computes enough to hide the communication over an axis.
struct ExplainedMargin {
  std::string axis;
  double flops_per_byte = 0;  // of this step, per byte sent over the axis
  double break_even = 0;  // FLOPs per byte at which the machine computes for
                          // as long as it sends
};

// The forward pass, the backward pass, and the update of variables.
enum class StepPhase : uint8_t { kForward, kBackward, kUpdate };

struct TimelineEntry {
  int instruction = 0;
  int collective = 0;  // its number, or 0 for compute
  std::string name;    // "einsum layer_0/ffn/einsum_1"
  StepPhase phase = StepPhase::kForward;
  double begin = 0, end = 0, exposed = 0;
};

// The layout of a variable or an input, for the drawing of the mesh.
struct TensorPlacement {
  struct ShardedDimension {
    std::string name;
    int64_t size = 0, padded = 0;
    std::vector<int> axes;  // indices of mesh axes, major to minor
  };
  std::string name;
  std::string kind;  // "parameter", "optimizer state", "state", "input"
  std::string dtype;
  std::vector<ShardedDimension> dimensions;
  int64_t bytes = 0;       // on each rank
  bool offloaded = false;  // in host memory between steps
};

struct Explanation {
  // The program that the step belongs to, and which of its requests the step
  // is, if it has several. Set by callers of Explain; "" if unknown.
  std::string program, request;
  // The dimensions that all inputs have, "batch:8, length:64"; without inputs,
  // the dimension "batch". "" if there are none.
  std::string batch;
  // The dtypes of einsums, parameters and optimizer state, most work or memory
  // first, "einsums bf16, parameters f32"; only "f32" if all are the same.
  std::string precision;
  Mesh mesh;
  std::string layout;   // as --layout takes it; "" for ExplainProgram
  std::string machine;  // its name
  // The measured training steps that the machine's estimates were compared to
  // (Machine::checked), or "".
  std::string machine_checked;
  StepCost cost;
  double flops = 0;                                         // per rank
  double compute = 0, collective_seconds = 0, exposed = 0;  // seconds
  // Copies to and from host memory; memory.parts.host is in it between steps.
  double host_copy_seconds = 0;
  int64_t host_copy_bytes = 0;
  std::vector<ExplainedCollective> collectives;
  std::vector<ExplainedEinsum> einsums;
  std::vector<ExplainedTotal> by_axis, by_kind, by_module;
  std::vector<ExplainedMargin> margins;
  ExplainedMemory memory;
  ExplainedAttention attention;
  std::vector<ExplainedRule> rules;
  std::vector<ExplainedPadding> padding;
  std::vector<RuleChange> changes;
  std::string changes_note;          // how changes were lowered, or ""
  std::vector<std::string> notices;  // about rules without effect
  std::vector<TimelineEntry> timeline;
  std::vector<TensorPlacement> tensors;
};

struct ExplainOptions {
  bool strict = false;  // a rule without effect is an error
  // Whether to lower the step again under changed rules.
  bool changes = true;
  // For graphs with more operations than this (some fifteen transformer
  // layers), the cost of a change is extrapolated from a few of the repeated
  // layers. It is exact up to the memory lost to fragmentation, unless it is
  // marked as an estimate.
  int64_t most_operations = 6000;
};

// Explains a step that computes `targets`: lowers `graph`, estimates time and
// memory on the devices of `machine`, and lowers it again under changed rules
// to find which change removes each collective and what each rule saves.
// Allocates no tensor and needs no ranks; the time it takes does not depend on
// the number of devices.
//
//   MTF_ASSIGN_OR_RETURN(const Machine machine,
//                        Machine::Load("h100_nvlink_ib"));
//   MTF_ASSIGN_OR_RETURN(
//       const Explanation explanation,
//       Explain(graph, mesh, rules, {.updates = {step}}, machine));
//   std::cout << ExplainText(explanation, 120);
//
// Returns the errors of Machine::CheckMesh, BindLayoutAndBudget and Lower.
absl::StatusOr<Explanation> Explain(const Graph& graph, const Mesh& mesh,
                                    const LayoutRules& rules,
                                    const Targets& targets,
                                    const Machine& machine,
                                    const ExplainOptions& options = {});

// Explains a lowered program without its graph, for example one read from a
// file. Passes that have not run yet are run first. Tries no changes, and lists
// only the rules that the program names as causes.
Explanation ExplainProgram(const Program& program, const Machine& machine);

// Formats what one asks first: the cost of the step, communication by axis, the
// collectives with the longest exposed time, memory by purpose and the best
// changes of rules. About a screen in lines of at most `width` characters;
// widths below 60 count as 60. Rows that are too wide continue on indented
// lines. Rows that differ only in the layer are merged, with their numbers
// added up.
std::string ExplainText(const Explanation& explanation, int width);

// Formats all of the explanation, in the same way: also each collective,
// modules, einsums, the memory that each rule saves, and all changes.
std::string ExplainFullText(const Explanation& explanation, int width);

// Highlights the titles and notes of a text of the functions above by the
// escape sequences of a terminal.
std::string WithColors(absl::string_view text);

// Formats the explanation as one JSON object with a final newline.
// docs/explain.md documents its keys.
std::string ExplainJson(const Explanation& explanation);

// Formats the explanation as one HTML page without external resources. The
// script element "explanation" contains the output of ExplainJson.
std::string ExplainHtml(const Explanation& explanation);

// Lower bound on the bytes that each of `ranks` ranks receives to multiply
// [m, k] by [k, n], if each matrix is stored once, spread evenly over the ranks
// (Al Daas et al. 2022, theorem 2). `batch` independent products are first
// distributed over the ranks. Sets `regime`, if not null, to the number of
// dimensions that an optimal algorithm shards.
double LowerBoundBytes(int64_t batch, int64_t m, int64_t n, int64_t k,
                       int64_t ranks, int element_bytes,
                       MatmulRegime* regime = nullptr);

}  // namespace mtf

#endif  // PLANNING_EXPLAIN_EXPLAIN_H_
