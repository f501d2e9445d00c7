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
#include "planning/cost/retain_heap.h"
#include "planning/explain/explain.h"
#include "planning/machine/machine.h"
#include "train/loop/run_main.h"
#include "train/session/mesh_and_layout.h"

ABSL_FLAG(std::string, mesh_shape, "",
          "the devices as named axes, \"data:2,model:2\"; one size may be -1 "
          "for the remaining ranks; empty: one device, or the mesh of a "
          "preset");
ABSL_FLAG(std::string, layout, "",
          "rules that shard dimensions over mesh axes, "
          "\"batch:data, d_ff:model\", or a preset: single, data, megatron, "
          "megatron_sequence, data_model, sequence, all_to_all, zero2, zero3, "
          "three_axes");
ABSL_FLAG(std::string, layout_file, "",
          "reads the layout from a file, which may have [parameters] and "
          "[optimizer] sections");
ABSL_FLAG(
    std::string, budget, "",
    "limits of the step in addition to the layout's own [budget]: lines in the "
    "same form, \"at most 64 MiB over data, memory at most 80 GiB\", or @FILE "
    "with a section [budget]");
ABSL_FLAG(bool, strict_layout, false,
          "makes a layout rule without effect an error");
ABSL_FLAG(std::string, backend, "cpu", "the device that computes");
ABSL_FLAG(mtf::train::TimeLimit, collective_timeout, {},
          "seconds that a rank waits for others before it reports where each "
          "rank is and ends the run; 0: forever; default: "
          "MTF_COLLECTIVE_TIMEOUT, or 600");
ABSL_FLAG(mtf::train::ExplainFormat, explain, {},
          "prints the cost of a training step, with the line and the rule that "
          "cause each collective, as text, json or html, and exits; --explain "
          "alone is text");
ABSL_FLAG(std::string, explain_file, "", "writes the explanation to this file");
ABSL_FLAG(bool, explain_all_changes, false,
          "lowers every change of a rule, regardless of the time it takes");
ABSL_FLAG(
    bool, dry_run, false,
    "explains the step on any mesh without starting its ranks, and exits");
ABSL_FLAG(std::string, machine, "h100_nvlink_ib",
          "the machine for time estimates: the name of a preset or a file");
ABSL_FLAG(std::string, dump_program, "",
          "writes the lowered training step after every pass to this file");
ABSL_FLAG(std::string, trace, "",
          "writes a trace of the first steps of all ranks to this file, for "
          "chrome://tracing and ui.perfetto.dev");
ABSL_FLAG(mtf::train::Size, trace_steps, 3,
          "number of steps that --trace records");
ABSL_FLAG(mtf::train::Size, steps, 1000, "number of training steps");
ABSL_FLAG(mtf::train::Rate, learning_rate, 3e-3, "maximum learning rate");
ABSL_FLAG(mtf::train::Seed, seed, 0,
          "seed of initial values, dropout, order of the data and sampling");
ABSL_FLAG(mtf::train::ModelPrecision, precision, {},
          "dtypes of the model: float32, bfloat16, mixed_bfloat16, "
          "pure_bfloat16, float16, mixed_float16, with optional exceptions, as "
          "in \"bfloat16,gradients:bfloat16\"");
ABSL_FLAG(std::string, text, "",
          "file to train on; empty: the output of Debian's \"bible\"");
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

// Parses the mesh and the rules of the flags without starting ranks. The number
// of running ranks does not matter for a dry run, unless the size of the mesh
// depends on it.
absl::StatusOr<MeshAndLayout> MeshAndLayoutFromFlags(
    const std::string& layout) {
  const std::string mesh = absl::GetFlag(FLAGS_mesh_shape);
  const LauncherInfo launcher = DetectLauncher();
  const bool depends_on_ranks =
      absl::StrContains(mesh, ":-1") ||
      (absl::StripAsciiWhitespace(mesh).empty() &&
       IsLayoutName(absl::StripAsciiWhitespace(layout)));  // mesh of a preset
  const bool any_mesh =
      launcher.size == 1 || (absl::GetFlag(FLAGS_dry_run) && !depends_on_ranks);
  return ParseMeshAndLayout(mesh, layout, any_mesh ? 0 : launcher.size);
}

// Writes `text` to `path`, the value of flag `name`, on rank 0 only.
absl::Status WriteFile(absl::string_view what, absl::string_view name,
                       const std::string& path, const std::string& text) {
  if (DetectLauncher().rank != 0) return absl::OkStatus();
  return WritePlainFile(
      path, text, absl::StrCat("the ", what),
      absl::StrCat("name a file in a folder that exists with --", name));
}

// Notices for budget lines that match nothing; an error with --strict_layout.
absl::StatusOr<std::vector<std::string>> BudgetNotices(const Budget& budget,
                                                       const Mesh& mesh,
                                                       const Graph& graph) {
  return CheckBudgetNames(budget, mesh, graph,
                          absl::GetFlag(FLAGS_strict_layout));
}

// Implements --dump_program, which needs the mesh but not its ranks.
absl::Status DumpPlan(const Graph& graph, const RunRequest& request,
                      const std::string& layout, const Budget& budget) {
  MTF_ASSIGN_OR_RETURN(const MeshAndLayout parsed,
                       MeshAndLayoutFromFlags(layout));
  MTF_ASSIGN_OR_RETURN(const LayoutBinding binding,
                       BindLayoutAndBudget(graph, parsed.mesh, parsed.rules,
                                           absl::GetFlag(FLAGS_strict_layout)));
  MTF_RETURN_IF_ERROR(BudgetNotices(budget, parsed.mesh, graph).status());
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

// The width of the terminal, or 120 if standard output is not a terminal.
int OutputWidth() {
  winsize size;
  if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
      size.ws_col > 0) {
    return size.ws_col;
  }
  return 120;
}

// Parses --budget.
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
                             : "use --layout_file for a file with rules")));
}

// Checks the lowered step against the budgets of the layout and of --budget
// before it runs. `plan` sets the buffer plan of the program.
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

// Implements --explain and --dry_run.
absl::Status ExplainPlan(const Graph& graph, const RunRequest& request,
                         const std::string& layout, const Budget& budget) {
  internal::RetainHeap();
  MTF_ASSIGN_OR_RETURN(const Machine machine,
                       Machine::Load(absl::GetFlag(FLAGS_machine)));
  MTF_ASSIGN_OR_RETURN(const MeshAndLayout parsed,
                       MeshAndLayoutFromFlags(layout));
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> notices,
                       BudgetNotices(budget, parsed.mesh, graph));
  ExplainOptions options;
  options.strict = absl::GetFlag(FLAGS_strict_layout);
  if (absl::GetFlag(FLAGS_explain_all_changes)) {
    options.most_operations = std::numeric_limits<int64_t>::max();
  }
  MTF_ASSIGN_OR_RETURN(Explanation explanation,
                       Explain(graph, parsed.mesh, parsed.rules,
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
  if (parsed.rules.budget().empty() && budget.empty()) {
    return absl::OkStatus();
  }
  MTF_ASSIGN_OR_RETURN(
      const LayoutBinding binding,
      BindLayoutAndBudget(graph, parsed.mesh, parsed.rules, options.strict));
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
  // Only one rank writes the file, so only one can have failed.
  MTF_RETURN_IF_ERROR(session->Agree(shown));
  const absl::StatusOr<std::vector<std::string>> of_budget =
      BudgetNotices(budget, session->mesh(), graph);
  MTF_RETURN_IF_ERROR(session->Agree(of_budget.status()));
  for (const auto* notices : {&session->notices(), &*of_budget}) {
    for (const std::string& notice : *notices) {
      Say(absl::StrCat("note: ", notice));
    }
  }
  // The file of --budget may differ between ranks, so they must agree.
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
