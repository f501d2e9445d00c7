// SPDX-License-Identifier: Apache-2.0
#include "planning/explain/explain.h"

#include <algorithm>
#include <future>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lowering/emit/emit_program.h"
#include "lowering/lower.h"
#include "mtf/check.h"
#include "mtf/status.h"
#include "planning/cost/check_budget.h"
#include "planning/explain/explain_changes.h"
#include "planning/explain/explain_parts.h"

namespace mtf {
namespace internal {
namespace {

// The passes that have not run on `program`. Programs parsed from text have no
// plans of einsums and buffers.
std::vector<std::string> MissingPasses(const Program& program) {
  const std::vector<std::string> passes = PassNames();
  const auto from = [&passes](absl::string_view pass) {
    return std::vector<std::string>(
        std::find(passes.begin(), passes.end(), pass), passes.end());
  };
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode == Opcode::kReshard) return passes;
  }
  for (const ProgramValue& value : program.values) {
    if (static_cast<int>(value.local.size()) != value.shape.rank()) {
      return from("shard_shapes");
    }
  }
  if (program.buffers.buffers.size() == program.values.size()) return {};
  return from("plan_einsums");
}

// Sets ExplainedCollective::rules to indices into `rules`.
void SetCollectiveRules(const Rules& rules, const Program& program,
                        Explanation& explanation) {
  for (ExplainedCollective& collective : explanation.collectives) {
    collective.rules = RulesCausing(
        rules, program, program.instructions[collective.instruction]);
  }
}

}  // namespace
}  // namespace internal

namespace {

std::string NoteOnFewLayers(const std::vector<RuleChange>& changes) {
  const auto estimates =
      std::count_if(changes.begin(), changes.end(),
                    [](const RuleChange& change) { return change.estimated; });
  constexpr absl::string_view kHow =
      "changes were lowered with a few of the repeated layers";
  if (estimates == 0) return std::string(kHow);
  return absl::StrCat(kHow, ": the costs of ", estimates, " of ",
                      changes.size(), " are estimates");
}

}  // namespace

absl::StatusOr<Explanation> Explain(const Graph& graph, const Mesh& mesh,
                                    const LayoutRules& rules,
                                    const Targets& targets,
                                    const Machine& machine,
                                    const ExplainOptions& options) {
  MTF_RETURN_IF_ERROR(machine.CheckMesh(mesh));
  MTF_RETURN_IF_ERROR(graph.status());
  const DimensionTable dimensions = DimensionsOf(graph);
  MTF_ASSIGN_OR_RETURN(const LayoutBinding binding,
                       BindLayoutAndBudget(graph, mesh, rules, options.strict));
  const internal::ChangedStep step{graph,         dimensions,      mesh,
                                   rules.rules(), rules.offload(), targets,
                                   machine};
  // Changes of large graphs are tried on a few layers, concurrently with the
  // lowering of the present layout below.
  std::future<absl::StatusOr<std::optional<internal::ChangeTrials>>> few_layers;
  if (options.changes &&
      internal::CountOperations(graph) > options.most_operations) {
    few_layers = std::async(
        [&] { return internal::TryChangesOnFewLayers(step, binding); });
  }
  // Lower with all layers. The program is not run, so it need not be verified.
  LowerOptions lower_options;
  lower_options.verify = false;
  lower_options.attention = machine.attention();
  lower_options.fusion = machine.fusion();
  MTF_ASSIGN_OR_RETURN(const Program program,
                       Lower(graph, binding, targets, lower_options));
  Explanation explanation = internal::ExplainLowered(program, machine);
  explanation.layout = rules.ToString();
  for (const auto& notices : {binding.rules.notices(), program.notices}) {
    explanation.notices.insert(explanation.notices.end(), notices.begin(),
                               notices.end());
  }
  explanation.rules =
      internal::ExplainRuleUses(binding, rules.rules(), program);
  internal::SetCollectiveRules(rules.rules(), program, explanation);
  if (!options.changes) return explanation;
  std::optional<internal::ChangeTrials> trials;
  if (few_layers.valid()) {
    MTF_ASSIGN_OR_RETURN(trials, few_layers.get());
  }
  if (!trials) trials.emplace(internal::TryChanges(step, binding, program));
  internal::ReportChanges(*trials, rules.rules(), program, explanation);
  if (trials->few_layers) {
    explanation.changes_note = NoteOnFewLayers(explanation.changes);
  }
  return explanation;
}

Explanation ExplainProgram(const Program& program, const Machine& machine) {
  // Run the missing passes, and fuse what the machine fuses.
  Program lowered = program;
  const std::vector<std::string> missing = internal::MissingPasses(program);
  for (const std::string& pass : missing) {
    if (!RunPass(pass, lowered, machine.fusion()).ok()) break;
  }
  const bool fuses =
      !program.groups.empty() || machine.fusion() != FusionCapabilities();
  if (missing.empty() && fuses) {
    MTF_CHECK(FuseFor(machine.fusion(), lowered).ok()) << "lowered program";
  }
  Explanation explanation = internal::ExplainLowered(lowered, machine);
  explanation.notices.insert(explanation.notices.end(), lowered.notices.begin(),
                             lowered.notices.end());
  for (const LayoutRule& rule : program.rules) {
    explanation.rules.push_back({rule.SectionName(), rule.ToString(),
                                 rule.origin, RuleUse::kUsed, "", -1,
                                 std::nullopt});
  }
  internal::SetCollectiveRules(program.rules, lowered, explanation);
  for (ExplainedCollective& collective : explanation.collectives) {
    if (collective.rule.empty()) continue;
    collective.no_change = "changes of rules need the model itself";
  }
  return explanation;
}

}  // namespace mtf
