// SPDX-License-Identifier: Apache-2.0
//
// What a layout costs, told before anything runs: every collective with its
// cause and a way out, every einsum against its lower bound, memory by name.
// docs/explain.md says how to read it.
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

struct ExplainedCollective {
  int number = 0;       // in order of the program, from 1
  int instruction = 0;  // place in Program::instructions
  std::string kind;     // "all_reduce"
  std::string axes;     // "data+model"
  int64_t group_size = 1;
  std::string tensor;         // "layer_0/ffn/einsum_1 and 2 more"
  std::string dimension;      // whose cut causes it, "d_ff"
  std::string rule;           // "d_ff:model"
  std::string rule_origin;    // "preset megatron:8"
  std::vector<int> rules;     // all that cause it: places in Explanation::rules
  std::string operation;      // the user's, "layer_0/ffn/einsum_1"
  std::string module;         // "layer_0/ffn"
  std::string site;           // "mlp.cc:41"
  int64_t bytes = 0;          // sent by each rank
  double seconds = 0;         // of the collective by itself
  double exposed = 0;         // the part that no compute hides
  bool asynchronous = false;  // the program lets it run beside compute
  // The cheapest change of a rule that removes it: a place in
  // Explanation::changes, or -1 and why there is none.
  int change = -1;
  std::string no_change;
  // How its operation communicates after the change, and does not before:
  // "all_reduce over model"; "" where it does not.
  std::string instead;
};

// How many of the three groups of dimensions of a matmul are cut.
enum class MatmulRegime : uint8_t { kNone, k1D, k2D, k3D };

struct ExplainedEinsum {
  int instruction = 0;
  std::string operation, module, site;
  std::string sharding;  // "[batch:8/data, d_ff:32/model] sum d_model"
  // Sizes of the whole: `batch` products of [m, k] by [k, n].
  int64_t batch = 1, m = 1, n = 1, k = 1;
  double flops = 0;     // of each rank, padding and repeated work included
  double repeated = 1;  // flops of all ranks over those of one device
  double seconds = 0;
  MatmulRegime best = MatmulRegime::kNone;    // where the bound is attained
  MatmulRegime layout = MatmulRegime::kNone;  // what the rules make of it
  // Bytes each rank receives: by the collectives of its operands and of its
  // result, and at least (LowerBoundBytes).
  double moved_bytes = 0;
  double bound_bytes = 0;
  // Whether it runs inside of fused attention: `seconds` is then its share of
  // that kernel's time, by FLOPs.
  bool in_attention = false;
};

// What becomes of the attention of a step on a machine that fuses it.
struct ExplainedAttention {
  bool machine_fuses = false;
  int fused = 0;  // attentions that are one kernel, or two with backward
  int64_t saved_bytes = 0;  // memory of a rank that this saves
  // Those that stay composed of einsums and a softmax.
  struct Composed {
    std::string operation, module, site;  // that makes the scores
    std::string why;                      // "the layout cuts length over model"
  };
  std::vector<Composed> composed;
};

// A sum over what stands in its name: a kind, an axis, a module.
struct ExplainedTotal {
  std::string name;
  int64_t calls = 0;
  int64_t bytes = 0;       // on the wire per rank
  double collectives = 0;  // seconds
  double exposed = 0;
  double compute = 0;  // seconds; of modules only
  double flops = 0;    // per rank; of modules only
};

enum class RuleUse : uint8_t { kUsed, kUnused, kShadowed };

struct ExplainedRule {
  std::string section;  // "default"
  std::string rule;     // "d_ff:model"
  std::string origin;
  RuleUse use = RuleUse::kUsed;
  std::string why;  // of a rule that is not used
  // What changes when it goes: a place in Explanation::changes, or -1.
  int dropped = -1;
  // Memory without the rule less that with it, parts of which may be negative.
  // Unknown where the layout is illegal without it, and of a program alone.
  std::optional<MemoryParts> saved;
};

struct ExplainedPadding {
  std::string dimension;
  int64_t size = 0, padded = 0;
};

// Whether an axis carries what compute can hide.
struct ExplainedMargin {
  std::string axis;
  double flops_per_byte = 0;  // of this step, per byte sent over the axis
  double break_even = 0;      // what the machine needs to hide a byte
};

struct TimelineEntry {
  int instruction = 0;
  int collective = 0;  // its number, or 0 for compute
  std::string name;    // "einsum layer_0/ffn/einsum_1"
  double begin = 0, end = 0, exposed = 0;
};

// How a variable or an input lies on the mesh: for the drawing.
struct TensorPlacement {
  struct ShardedDimension {
    std::string name;
    int64_t size = 0, padded = 0;
    std::vector<int> axes;  // places in the mesh, major to minor
  };
  std::string name;
  std::string kind;  // "parameter", "optimizer state", "input"
  std::string dtype;
  std::vector<ShardedDimension> dimensions;
  int64_t bytes = 0;  // on each rank
};

struct Explanation {
  Mesh mesh;
  std::string layout;   // as --layout takes it; "" without a graph
  std::string machine;  // its name
  StepCost cost;
  double flops = 0;  // of each rank
  double compute = 0, collective_seconds = 0, exposed = 0;
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
  std::vector<std::string> notices;  // on rules without effect
  std::vector<TimelineEntry> timeline;
  std::vector<TensorPlacement> tensors;
};

struct ExplainOptions {
  bool strict = false;  // an inert rule is an error
  // Whether the step is lowered under changed rules too.
  bool changes = true;
  // A graph of more operations than this has its changes lowered with few of
  // its layers, if those repeat themselves; what a change costs is the same
  // then, up to what is left unused between tensors in memory, unless it is
  // said to be an estimate. A model of a dozen layers has less.
  int64_t most_operations = 6000;
};

// Explains a step of `graph` for `targets`: lowers it, estimates it, and
// lowers it again under changed rules to say what would remove a collective
// and what each rule saves. Memory is that of the machine's devices
// (plan_for_machine.h). Allocates no tensor and knows no rank; time does
// not depend on the number of devices.
//
//   MTF_ASSIGN_OR_RETURN(const Machine machine,
//                        Machine::Load("h100_nvlink_ib"));
//   MTF_ASSIGN_OR_RETURN(
//       const Explanation explanation,
//       Explain(graph, mesh, rules, {.updates = {step}}, machine));
//   std::cout << ExplainText(explanation, 120);
//
// The errors are those of BindLayout and Lower, and of Machine::CheckMesh.
absl::StatusOr<Explanation> Explain(const Graph& graph, const Mesh& mesh,
                                    const LayoutRules& rules,
                                    const Targets& targets,
                                    const Machine& machine,
                                    const ExplainOptions& options = {});

// The same of a lowered program (all passes run) alone: no changes, and of the
// rules only those that cause something. What is optimizer state is told from
// what reads it.
Explanation ExplainProgram(const Program& program, const Machine& machine);

// The explanation as text of lines up to `width` characters (at least 60):
// names are shortened, and columns left out, where it is narrow. Equal lines
// of several layers are one. Bytes and calls in it are exact.
std::string ExplainText(const Explanation& explanation, int width);

// As one JSON object (docs/explain.md has the schema), with a final newline.
std::string ExplainJson(const Explanation& explanation);

// As one page of HTML that needs nothing else. The data in it is that of
// ExplainJson, in the script element "explanation".
std::string ExplainHtml(const Explanation& explanation);

// Bytes that each of `ranks` ranks must receive to multiply [m, k] by [k, n]
// when the three matrices lie on the ranks in equal parts, once (Al Daas et
// al. 2022, theorem 2), times `element_bytes`; of `batch` such products when
// the ranks share them out. Sets `regime` to where the bound is attained.
double LowerBoundBytes(int64_t batch, int64_t m, int64_t n, int64_t k,
                       int64_t ranks, int element_bytes,
                       MatmulRegime* regime = nullptr);

}  // namespace mtf

#endif  // PLANNING_EXPLAIN_EXPLAIN_H_
