// SPDX-License-Identifier: Apache-2.0
#include "train/loop/flags.h"

#include <unistd.h>

#include <cerrno>  // program_invocation_short_name
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "backends/communicators/launcher.h"
#include "layouts/text_items.h"
#include "lowering/lower.h"
#include "lowering/program/print_program.h"
#include "mtf/status.h"
#include "mtf/write_file.h"
#include "planning/cost/check_budget.h"
#include "planning/cost/retain_heap.h"
#include "planning/explain/explain.h"
#include "planning/machine/machine.h"
#include "train/loop/parse_flags.h"
#include "train/loop/progress.h"
#include "train/loop/run_main.h"
#include "train/loop/search_text.h"
#include "train/session/mesh_and_layout.h"

ABSL_FLAG(std::string, mesh_shape, "",
          "the devices as named axes, \"data:2,model:2\"; one size may be -1 "
          "for the remaining ranks; empty: one device, or the mesh of a "
          "preset");
ABSL_FLAG(std::string, layout, "",
          "rules that shard dimensions over mesh axes, "
          "\"batch:data, d_ff:model\", or a preset: single, data, megatron, "
          "megatron_sequence, data_model, sequence, all_to_all, zero2, zero3, "
          "ring, three_axes; \"[offload] optimizer\" may follow either");
ABSL_FLAG(std::string, layout_file, "",
          "reads the layout from a file, which may have sections "
          "[in SCOPES], [parameters], [optimizer], [offload] and [budget]");
ABSL_FLAG(
    std::string, budget, "",
    "limits of the step in addition to the layout's own [budget]: lines in the "
    "same form, \"at most 64 MiB over data, memory at most 80 GiB\", or @FILE "
    "with a section [budget]");
ABSL_FLAG(bool, strict_layout, false,
          "makes a layout rule without effect an error");
ABSL_FLAG(std::string, backend, "cpu", "the device that computes");
ABSL_FLAG(std::optional<mtf::train::Size>, threads, std::nullopt,
          "threads of each rank; default: the cores that the process may use / "
          "its ranks");
ABSL_FLAG(mtf::train::TimeLimit, collective_timeout, {},
          "seconds that a rank waits for others before it reports where each "
          "rank is and ends the run; 0: forever; default: "
          "MTF_COLLECTIVE_TIMEOUT, or 600");
ABSL_FLAG(mtf::train::ExplainFormat, explain, {},
          "prints the cost of a training step, with the line and the rule that "
          "cause each collective, as text, full text, json or html, and exits; "
          "--explain alone is text");
ABSL_FLAG(std::string, explain_file, "", "writes the explanation to this file");
ABSL_FLAG(std::string, explain_request, "",
          "the request of the program to explain, by name; empty: the first");
ABSL_FLAG(bool, explain_all_changes, false,
          "lowers every change of a rule, regardless of the time it takes");
ABSL_FLAG(
    bool, dry_run, false,
    "explains the step on any mesh without starting its ranks, and exits");
ABSL_FLAG(bool, search, false,
          "searches for the fastest layouts of the request on --mesh_shape, "
          "within the memory of the machine and the budget, prints them beside "
          "--layout, and exits");
ABSL_FLAG(std::string, machine, "",
          "the machine for time estimates: the name of a preset or a file; "
          "default: with --dry_run or another backend than cpu "
          "h100_nvlink_ib, else this_host, or cpu_host until mtf calibrate has "
          "measured this host");
ABSL_FLAG(std::string, dump_program, "",
          "writes the lowered training step after every pass to this file");
ABSL_FLAG(std::string, trace, "",
          "writes a trace of the first steps of all ranks to this file, for "
          "chrome://tracing and ui.perfetto.dev");
ABSL_FLAG(mtf::train::Size, trace_steps, 3,
          "number of steps that --trace records");
ABSL_FLAG(mtf::train::Seed, seed, 0,
          "seed of initial values, dropout, order of the data and sampling");

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
       !PresetIn(layout).empty());  // mesh of a preset
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

// The machine of --machine. A default that is not this host adds a notice.
absl::StatusOr<Machine> MachineFromFlags(std::vector<std::string>& notices) {
  const std::string name = absl::GetFlag(FLAGS_machine);
  if (!name.empty()) return Machine::Load(name);
  if (absl::GetFlag(FLAGS_dry_run) || absl::GetFlag(FLAGS_backend) != "cpu") {
    return Machine::Load("h100_nvlink_ib");
  }
  absl::StatusOr<Machine> host = Machine::Load("this_host");
  if (!absl::IsNotFound(host.status())) return host;
  constexpr char kNotMeasured[] =
      "this host has not been measured: machine cpu_host is one like it; mtf "
      "calibrate measures this one in 20 seconds";
  notices.emplace_back(kNotMeasured);
  return Machine::Load("cpu_host");
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
  std::vector<std::string> ignored_notices;
  MTF_ASSIGN_OR_RETURN(const Machine machine,
                       MachineFromFlags(ignored_notices));
  options.attention = machine.attention();
  options.fusion = machine.fusion();
  options.after_pass = [&dump](absl::string_view pass, const Program& program) {
    absl::StrAppend(&dump, "# after ", pass, "\n",
                    PrintProgram(program, ProgramDetail::kWithOrigins), "\n");
  };
  MTF_RETURN_IF_ERROR(
      Lower(graph, binding, TargetsOf(request), options).status());
  return WriteFile("program", "dump_program", absl::GetFlag(FLAGS_dump_program),
                   dump);
}

// Whether standard output is a terminal whose user wants colors.
bool OutputHasColors() {
  const char* no_color = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) != 0 &&
         (no_color == nullptr || *no_color == '\0');
}

// The width of the terminal, or 120 if standard output is not a terminal.
int OutputWidth() {
  return isatty(STDOUT_FILENO) != 0 ? OutputColumns(120) : 120;
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
// before it runs.
absl::Status CheckBudgetOf(const Graph& graph, const RunRequest& request,
                           const LayoutBinding& binding, const Budget& budget,
                           const LowerOptions& options) {
  if (binding.budget.empty() && budget.empty()) return absl::OkStatus();
  MTF_ASSIGN_OR_RETURN(const Program program,
                       Lower(graph, binding, TargetsOf(request), options));
  MTF_RETURN_IF_ERROR(CheckBudget(program, binding.budget));
  return CheckBudget(program, budget);
}

// Implements --explain and --dry_run.
absl::Status ExplainPlan(const Graph& graph, const NamedRequest& chosen,
                         const std::string& request_notice,
                         const std::string& layout, const Budget& budget) {
  const RunRequest& request = chosen.request;
  internal::RetainHeap();
  std::vector<std::string> notices;
  MTF_ASSIGN_OR_RETURN(const Machine machine, MachineFromFlags(notices));
  MTF_ASSIGN_OR_RETURN(const MeshAndLayout parsed,
                       MeshAndLayoutFromFlags(layout));
  MTF_ASSIGN_OR_RETURN(std::vector<std::string> more_notices,
                       BudgetNotices(budget, parsed.mesh, graph));
  ExplainOptions options;
  options.strict = absl::GetFlag(FLAGS_strict_layout);
  if (absl::GetFlag(FLAGS_explain_all_changes)) {
    options.most_operations = std::numeric_limits<int64_t>::max();
  }
  MTF_ASSIGN_OR_RETURN(Explanation explanation,
                       Explain(graph, parsed.mesh, parsed.rules,
                               TargetsOf(request), machine, options));
  for (const auto* more : {&more_notices, &notices}) {
    explanation.notices.insert(explanation.notices.end(), more->begin(),
                               more->end());
  }
  explanation.program = program_invocation_short_name;
  if (!request_notice.empty()) {
    explanation.request = chosen.name;
    explanation.notices.push_back(request_notice);
  }
  if (!explanation.changes_note.empty()) {
    explanation.changes_note += "; --explain_all_changes lowers all of them";
  }
  const std::string path = absl::GetFlag(FLAGS_explain_file);
  const int width = path.empty() ? OutputWidth() : 120;
  const ExplainFormat format = absl::GetFlag(FLAGS_explain);
  const bool is_text =
      format != ExplainFormat::kJson && format != ExplainFormat::kHtml;
  std::string text;
  switch (format) {
    case ExplainFormat::kNone:  // --dry_run alone
    case ExplainFormat::kText:
      text = absl::StrCat(ExplainText(explanation, width),
                          "\nmore: --explain=full, --explain=html\n");
      break;
    case ExplainFormat::kFull:
      text = ExplainFullText(explanation, width);
      break;
    case ExplainFormat::kJson:
      text = ExplainJson(explanation);
      break;
    case ExplainFormat::kHtml:
      text = ExplainHtml(explanation);
      break;
  }
  if (path.empty()) {
    Say(absl::StripSuffix(
        is_text && OutputHasColors() ? WithColors(text) : text, "\n"));
  } else {
    MTF_RETURN_IF_ERROR(WriteFile("explanation", "explain_file", path, text));
  }
  if (parsed.rules.budget().empty() && budget.empty()) {
    return absl::OkStatus();
  }
  MTF_ASSIGN_OR_RETURN(
      const LayoutBinding binding,
      BindLayoutAndBudget(graph, parsed.mesh, parsed.rules, options.strict));
  return CheckBudgetOf(
      graph, request, binding, budget,
      {.attention = machine.attention(), .fusion = machine.fusion()});
}

// Implements --search.
absl::Status SearchLayouts(const Graph& graph, const NamedRequest& chosen,
                           const std::string& request_notice,
                           const std::string& layout, const Budget& budget) {
  // It takes every core of the host, so one rank searches for all.
  if (DetectLauncher().rank != 0) return absl::OkStatus();
  std::vector<std::string> notices;
  MTF_ASSIGN_OR_RETURN(const Machine machine, MachineFromFlags(notices));
  MTF_ASSIGN_OR_RETURN(const MeshAndLayout parsed,
                       MeshAndLayoutFromFlags(layout));
  if (!request_notice.empty()) notices.push_back(request_notice);
  MTF_ASSIGN_OR_RETURN(
      std::string text,
      SearchText({.graph = graph,
                  .targets = TargetsOf(chosen.request),
                  .mesh = parsed.mesh,
                  .machine = machine,
                  .present = parsed.rules,
                  .budget = budget,
                  .strict = absl::GetFlag(FLAGS_strict_layout)},
                 OutputWidth()));
  for (const std::string& notice : notices) {
    absl::StrAppend(&text, "note: ", notice, "\n");
  }
  Say(absl::StripSuffix(OutputHasColors() ? WithColors(text) : text, "\n"));
  return absl::OkStatus();
}

// Checks that no flag is given that is read only together with one that is not,
// and no two of which one would be ignored.
absl::Status CheckDependentFlags(bool explain, bool search) {
  if (search && absl::GetFlag(FLAGS_explain) != ExplainFormat::kNone) {
    return absl::InvalidArgumentError(
        absl::StrCat("both --search and --explain are given",
                     DetailLine("help",
                                "search first, then explain a layout "
                                "that was found")));
  }
  const bool dumps = !absl::GetFlag(FLAGS_dump_program).empty();
  const bool traces = !absl::GetFlag(FLAGS_trace).empty();
  struct Flag {
    absl::string_view name, needs, help;
    bool read;
  };
  constexpr absl::string_view kExplain = "add --explain, or --dry_run";
  constexpr absl::string_view kSearch = "add --explain, --dry_run or --search";
  for (const Flag& flag : std::initializer_list<Flag>{
           {"explain_file", "explain", kExplain, explain},
           {"explain_all_changes", "explain", kExplain, explain},
           {"explain_request", "explain", kSearch, explain || dumps || search},
           {"machine", "explain", kSearch, explain || search},
           {"trace_steps", "trace", "add --trace=FILE", traces}}) {
    if (flag.read || !FlagIsGiven(flag.name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag.name, " is given without --", flag.needs,
                     DetailLine("help", flag.help)));
  }
  return absl::OkStatus();
}

std::vector<std::string> NamesOf(const std::vector<NamedRequest>& requests) {
  std::vector<std::string> names;
  for (const NamedRequest& request : requests) names.push_back(request.name);
  return names;
}

// The request to explain.
absl::StatusOr<const NamedRequest*> ChosenRequest(
    const std::vector<NamedRequest>& requests) {
  if (requests.empty()) {
    return absl::InvalidArgumentError("StartSession() needs a request");
  }
  const std::string name = absl::GetFlag(FLAGS_explain_request);
  if (name.empty()) return &requests[0];
  for (const NamedRequest& request : requests) {
    if (request.name == name) return &request;
  }
  const std::vector<std::string> names = NamesOf(requests);
  const std::string nearest = NearestName(name, names);
  return absl::InvalidArgumentError(absl::StrCat(
      "--explain_request is ", Quoted(name), ", which is not a request of the ",
      "program",
      nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?"),
      DetailLine("requests", absl::StrJoin(names, ", "))));
}

// Which of several requests is explained, and the others; "" for one request.
std::string RequestNotice(const std::vector<NamedRequest>& requests,
                          const NamedRequest& chosen) {
  std::vector<std::string> others;
  for (const NamedRequest& request : requests) {
    if (request.name != chosen.name) others.push_back(request.name);
  }
  if (others.empty()) return "";
  return absl::StrCat("this is the request ", chosen.name,
                      "; --explain_request explains ",
                      absl::StrJoin(others, ", "));
}

// The value of --threads, or 0.
absl::StatusOr<int> ThreadsFromFlags() {
  constexpr int kMostThreads = 1024;
  const int64_t threads = absl::GetFlag(FLAGS_threads).value_or(0);
  if (threads <= kMostThreads) return static_cast<int>(threads);
  return absl::InvalidArgumentError(
      absl::StrCat("--threads is ", threads, ", more than ", kMostThreads));
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
  return StartSession(graph, std::vector<NamedRequest>{{"step", request}});
}

absl::StatusOr<std::unique_ptr<Session>> StartSession(
    const Graph& graph, const std::vector<NamedRequest>& requests,
    const InitializeOptions& initialize) {
  MTF_ASSIGN_OR_RETURN(const std::string layout, LayoutFromFlags());
  const bool search = absl::GetFlag(FLAGS_search);
  const bool explain =
      !search && (absl::GetFlag(FLAGS_explain) != ExplainFormat::kNone ||
                  absl::GetFlag(FLAGS_dry_run));
  MTF_RETURN_IF_ERROR(CheckDependentFlags(explain, search));
  MTF_ASSIGN_OR_RETURN(const NamedRequest* chosen, ChosenRequest(requests));
  MTF_ASSIGN_OR_RETURN(const Budget budget, BudgetFromFlags());
  absl::Status shown;
  if (!absl::GetFlag(FLAGS_dump_program).empty()) {
    shown = DumpPlan(graph, chosen->request, layout, budget);
  }
  if (explain || search) {
    MTF_RETURN_IF_ERROR((search ? &SearchLayouts : &ExplainPlan)(
        graph, *chosen, RequestNotice(requests, *chosen), layout, budget));
    MTF_RETURN_IF_ERROR(shown);
    return EndOfProgram();
  }
  MTF_ASSIGN_OR_RETURN(const int threads, ThreadsFromFlags());
  SessionOptions options;
  options.threads_per_rank = threads;
  options.backend = absl::GetFlag(FLAGS_backend);
  options.strict_layout = absl::GetFlag(FLAGS_strict_layout);
  options.seed = absl::GetFlag(FLAGS_seed);
  options.trace = absl::GetFlag(FLAGS_trace);
  options.trace_steps = absl::GetFlag(FLAGS_trace_steps);
  options.on_notice = [](const std::string& notice) {
    Say(absl::StrCat("note: ", notice));
  };
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
  const LowerOptions lower_options = {.attention = session->attention(),
                                      .fusion = session->fusion()};
  for (const NamedRequest& request : requests) {
    MTF_RETURN_IF_ERROR(session->Agree(CheckBudgetOf(
        graph, request.request, session->binding(), budget, lower_options)));
  }
  Say(Describe(*session, layout));
  MTF_RETURN_IF_ERROR(session->Initialize(initialize));
  return session;
}

}  // namespace mtf::train
