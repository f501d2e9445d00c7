// SPDX-License-Identifier: Apache-2.0
#include "train/loop/flags.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <limits>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "backends/communicators/launcher.h"
#include "layouts/text_items.h"
#include "lowering/lower.h"
#include "lowering/passes/plan_for_machine.h"
#include "lowering/program/print_program.h"
#include "mtf/status.h"
#include "mtf/write_file.h"
#include "planning/cost/check_budget.h"
#include "planning/cost/keep_memory.h"
#include "planning/explain/explain.h"
#include "planning/machine/machine.h"
#include "train/loop/run_main.h"
#include "train/session/placement.h"

ABSL_FLAG(std::string, mesh_shape, "",
          "the devices as named axes, \"data:2,model:2\"; one size may be -1 "
          "for the rest of the ranks; empty: one device, or the mesh of a "
          "preset");
ABSL_FLAG(std::string, layout, "",
          "which dimension is cut over which mesh axes, "
          "\"batch:data, d_ff:model\", or a preset: single, data, megatron, "
          "megatron_sequence, data_model, sequence, all_to_all, zero2, zero3, "
          "three_axes");
ABSL_FLAG(std::string, layout_file, "",
          "reads the layout from a file, which may have [parameters] and "
          "[optimizer] sections");
ABSL_FLAG(
    std::string, budget, "",
    "what the step must stay within, beside the layout's own [budget]: "
    "lines as there, \"at most 64 MiB over data, memory at most 80 GiB\", "
    "or @FILE, whose section [budget] is meant");
ABSL_FLAG(bool, strict_layout, false,
          "makes a layout rule that does nothing an error");
ABSL_FLAG(std::string, backend, "cpu", "what computes");
ABSL_FLAG(mtf::train::TimeLimit, collective_timeout, {},
          "seconds that a rank waits for others before it says where each is "
          "and ends the run; 0: for ever; default: MTF_COLLECTIVE_TIMEOUT, or "
          "600");
ABSL_FLAG(mtf::train::ExplainFormat, explain, {},
          "says what a training step costs, every collective with the line and "
          "the rule that cause it, as text, json or html, and exits; --explain "
          "alone is text");
ABSL_FLAG(std::string, explain_file, "", "writes the explanation to this file");
ABSL_FLAG(bool, explain_all_changes, false,
          "tries every change of a rule, however long it takes");
ABSL_FLAG(bool, dry_run, false,
          "explains the step on any mesh without its ranks, and exits");
ABSL_FLAG(std::string, machine, "h100_nvlink_ib",
          "what times are estimated for: the name of a machine or its file");
ABSL_FLAG(std::string, dump_program, "",
          "writes the lowered training step after every pass to this file");
ABSL_FLAG(std::string, trace, "",
          "writes what each rank did in the first steps to this file, for "
          "chrome://tracing and ui.perfetto.dev");
ABSL_FLAG(mtf::train::Size, trace_steps, 3, "steps that --trace writes");
ABSL_FLAG(mtf::train::Size, steps, 1000, "training steps");
ABSL_FLAG(mtf::train::Rate, learning_rate, 3e-3, "highest learning rate");
ABSL_FLAG(mtf::train::Seed, seed, 0,
          "of initial values, dropout, order of the data and sampling");
ABSL_FLAG(mtf::train::ModelPrecision, precision, {},
          "dtypes of the model: float32, bfloat16, mixed_bfloat16, "
          "pure_bfloat16, float16, mixed_float16, and what differs from it, as "
          "in \"bfloat16,gradients:bfloat16\"");
ABSL_FLAG(std::string, text, "",
          "file to learn from; empty: what Debian's \"bible\" prints");
ABSL_FLAG(std::string, log_json, "",
          "writes one JSON object for each step to this file");

namespace mtf::train {
namespace {

absl::StatusOr<std::string> LayoutFromFlags() {
  std::string layout = absl::GetFlag(FLAGS_layout);
  const std::string file = absl::GetFlag(FLAGS_layout_file);
  if (file.empty()) return layout;
  if (!layout.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("both --layout and --layout_file are given",
                     DetailLine("--layout", Quoted(layout)),
                     DetailLine("--layout_file", Quoted(file)),
                     DetailLine("help", "give one of them")));
  }
  return absl::StrCat("@", file);
}

Targets TargetsOf(const RunRequest& request) {
  Targets targets;
  targets.fetches = request.fetches;
  targets.updates = request.updates;
  return targets;
}

// The mesh and the rules of the flags, without any rank of them. A dry run does
// not care how many ranks there are, unless its mesh is made of them.
absl::StatusOr<Placement> PlacementFromFlags(const std::string& layout) {
  const std::string mesh = absl::GetFlag(FLAGS_mesh_shape);
  const LauncherInfo launcher = DetectLauncher();
  const bool of_ranks =
      absl::StrContains(mesh, ":-1") ||
      (absl::StripAsciiWhitespace(mesh).empty() &&
       IsLayoutName(absl::StripAsciiWhitespace(layout)));  // of a preset
  const bool any_mesh =
      launcher.size == 1 || (absl::GetFlag(FLAGS_dry_run) && !of_ranks);
  return ParsePlacement(mesh, layout, any_mesh ? 0 : launcher.size);
}

// Writes `text` to the file that the flag `name` gives; rank 0 alone does.
absl::Status WriteFile(absl::string_view what, absl::string_view name,
                       const std::string& path, const std::string& text) {
  if (DetectLauncher().rank != 0) return absl::OkStatus();
  return WritePlainFile(
      path, text, absl::StrCat("the ", what),
      absl::StrCat("name a file in a folder that exists with --", name));
}

// Lines of --budget that can find nothing, as notices or as an error.
absl::StatusOr<std::vector<std::string>> BudgetNotices(const Budget& budget,
                                                       const Mesh& mesh,
                                                       const Graph& graph) {
  return CheckBudgetNames(budget, mesh, graph,
                          absl::GetFlag(FLAGS_strict_layout));
}

// What --dump_program writes: it needs the mesh, but no rank of it.
absl::Status DumpPlan(const Graph& graph, const RunRequest& request,
                      const std::string& layout, const Budget& budget) {
  MTF_ASSIGN_OR_RETURN(const Placement placement, PlacementFromFlags(layout));
  MTF_ASSIGN_OR_RETURN(
      const LayoutBinding binding,
      BindLayoutAndBudget(graph, placement.mesh, placement.rules,
                          absl::GetFlag(FLAGS_strict_layout)));
  MTF_RETURN_IF_ERROR(BudgetNotices(budget, placement.mesh, graph).status());
  std::string dump;
  LowerOptions options;
  options.after_pass = [&dump](absl::string_view pass, const Program& program) {
    absl::StrAppend(&dump, "# after ", pass, "\n",
                    PrintProgram(program, ProgramDetail::kWithOrigins), "\n");
  };
  MTF_RETURN_IF_ERROR(
      Lower(graph, binding, TargetsOf(request), options).status());
  return WriteFile("program", "dump_program", absl::GetFlag(FLAGS_dump_program),
                   dump);
}

// The columns of the terminal that standard output is, or enough for a page.
int OutputWidth() {
  winsize size;
  if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
      size.ws_col > 0) {
    return size.ws_col;
  }
  return 120;
}

// What --budget says.
absl::StatusOr<Budget> BudgetFromFlags() {
  const std::string text = absl::GetFlag(FLAGS_budget);
  Budget budget;
  if (!absl::StartsWith(text, "@")) {
    MTF_RETURN_IF_ERROR(
        budget.Add(text, {.origin = "--budget", .by_line = false}));
    return budget;
  }
  const std::string path = text.substr(1);
  MTF_ASSIGN_OR_RETURN(const LayoutRules file, LayoutRules::ReadFile(path));
  if (file.rules().empty() && !file.budget().empty()) return file.budget();
  return absl::InvalidArgumentError(absl::StrCat(
      "budget file ", Quoted(path),
      file.rules().empty()
          ? " has no section [budget]"
          : absl::StrCat(" has the rule ", file.rules()[0].ToString()),
      DetailLine("help", file.rules().empty()
                             ? "begin it with a line [budget]"
                             : "a file of rules is given with --layout_file")));
}

// Holds the step against the budgets of the layout and of --budget before
// anything is computed for it. `plan` gives it the memory that it will have.
absl::Status CheckBudgetOf(const Graph& graph, const RunRequest& request,
                           const LayoutBinding& binding, const Budget& budget,
                           absl::FunctionRef<void(Program&)> plan) {
  if (binding.budget.empty() && budget.empty()) return absl::OkStatus();
  MTF_ASSIGN_OR_RETURN(Program program,
                       Lower(graph, binding, TargetsOf(request)));
  plan(program);
  MTF_RETURN_IF_ERROR(CheckBudget(program, binding.budget));
  return CheckBudget(program, budget);
}

// What --explain and --dry_run say.
absl::Status ExplainPlan(const Graph& graph, const RunRequest& request,
                         const std::string& layout, const Budget& budget) {
  internal::KeepMemory();
  MTF_ASSIGN_OR_RETURN(const Machine machine,
                       Machine::Load(absl::GetFlag(FLAGS_machine)));
  MTF_ASSIGN_OR_RETURN(const Placement placement, PlacementFromFlags(layout));
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> notices,
                       BudgetNotices(budget, placement.mesh, graph));
  ExplainOptions options;
  options.strict = absl::GetFlag(FLAGS_strict_layout);
  if (absl::GetFlag(FLAGS_explain_all_changes)) {
    options.most_operations = std::numeric_limits<int64_t>::max();
  }
  MTF_ASSIGN_OR_RETURN(Explanation explanation,
                       Explain(graph, placement.mesh, placement.rules,
                               TargetsOf(request), machine, options));
  explanation.notices.insert(explanation.notices.end(), notices.begin(),
                             notices.end());
  if (!explanation.changes_note.empty()) {
    explanation.changes_note += "; --explain_all_changes lowers all of them";
  }
  const std::string path = absl::GetFlag(FLAGS_explain_file);
  std::string text;
  switch (absl::GetFlag(FLAGS_explain)) {
    case ExplainFormat::kNone:  // --dry_run alone
    case ExplainFormat::kText:
      text = ExplainText(explanation, path.empty() ? OutputWidth() : 120);
      break;
    case ExplainFormat::kJson:
      text = ExplainJson(explanation);
      break;
    case ExplainFormat::kHtml:
      text = ExplainHtml(explanation);
      break;
  }
  if (path.empty()) {
    Say(absl::StripSuffix(text, "\n"));
  } else {
    MTF_RETURN_IF_ERROR(WriteFile("explanation", "explain_file", path, text));
  }
  if (placement.rules.budget().empty() && budget.empty()) {
    return absl::OkStatus();
  }
  MTF_ASSIGN_OR_RETURN(const LayoutBinding binding,
                       BindLayoutAndBudget(graph, placement.mesh,
                                           placement.rules, options.strict));
  return CheckBudgetOf(graph, request, binding, budget, [&](Program& program) {
    PlanForMachine(machine.fusion(), program);
  });
}

std::string Describe(const Session& session, const std::string& layout) {
  const Mesh& mesh = session.mesh();
  const int64_t ranks = mesh.num_devices();
  return absl::StrCat(
      ranks == 1 ? "one device" : absl::StrCat("mesh ", mesh.ToString()),
      layout.empty() ? "" : absl::StrCat(", layout ", layout), ", backend ",
      absl::GetFlag(FLAGS_backend), ", ", ranks,
      ranks == 1 ? " rank of " : " ranks of ", session.threads_per_rank(),
      session.threads_per_rank() == 1 ? " thread" : " threads");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> StartSession(
    const Graph& graph, const RunRequest& request) {
  MTF_ASSIGN_OR_RETURN(const std::string layout, LayoutFromFlags());
  const bool explain = absl::GetFlag(FLAGS_explain) != ExplainFormat::kNone ||
                       absl::GetFlag(FLAGS_dry_run);
  if (!explain && !absl::GetFlag(FLAGS_explain_file).empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--explain_file is given without --explain",
                     DetailLine("help", "add --explain, or --dry_run")));
  }
  MTF_ASSIGN_OR_RETURN(const Budget budget, BudgetFromFlags());
  absl::Status shown;
  if (!absl::GetFlag(FLAGS_dump_program).empty()) {
    shown = DumpPlan(graph, request, layout, budget);
  }
  if (explain) {
    MTF_RETURN_IF_ERROR(ExplainPlan(graph, request, layout, budget));
    MTF_RETURN_IF_ERROR(shown);
    return std::unique_ptr<Session>();
  }
  SessionOptions options;
  options.backend = absl::GetFlag(FLAGS_backend);
  options.strict_layout = absl::GetFlag(FLAGS_strict_layout);
  options.seed = absl::GetFlag(FLAGS_seed);
  options.trace = absl::GetFlag(FLAGS_trace);
  options.trace_steps = absl::GetFlag(FLAGS_trace_steps);
  options.collective_timeout = absl::GetFlag(FLAGS_collective_timeout).seconds;
  MTF_ASSIGN_OR_RETURN(
      std::unique_ptr<Session> session,
      Session::Create(graph, absl::GetFlag(FLAGS_mesh_shape), layout, options));
  // Only one rank writes, so only one can have failed to.
  MTF_RETURN_IF_ERROR(session->Agree(shown));
  const absl::StatusOr<std::vector<std::string>> of_budget =
      BudgetNotices(budget, session->mesh(), graph);
  MTF_RETURN_IF_ERROR(session->Agree(of_budget.status()));
  for (const auto* notices : {&session->notices(), &*of_budget}) {
    for (const std::string& notice : *notices) {
      Say(absl::StrCat("note: ", notice));
    }
  }
  // A file of --budget may be another on another rank.
  const auto plan = [&](Program& program) {
    program.buffers = session->PlanOf(program);
  };
  MTF_RETURN_IF_ERROR(session->Agree(
      CheckBudgetOf(graph, request, session->binding(), budget, plan)));
  Say(Describe(*session, layout));
  MTF_RETURN_IF_ERROR(session->Initialize());
  return session;
}

}  // namespace mtf::train
