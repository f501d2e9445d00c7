// SPDX-License-Identifier: Apache-2.0
#include "train/session/session.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/communicators/launcher.h"
#include "backends/communicators/wait_options.h"
#include "layouts/text_items.h"
#include "mtf/exceptions.h"
#include "mtf/status.h"
#include "planning/cost/check_budget.h"
#include "train/session/mesh_and_layout.h"
#include "train/session/plan_check.h"
#include "train/session/rank_set.h"
#include "train/session/session_state.h"

namespace mtf::train {
namespace {

// Returns the first error by rank, or that the ranks were given different
// meshes or layouts. Called before ranks form groups by their meshes: a rank
// that fails alone would leave the others waiting.
absl::Status AgreeOnMeshAndLayout(const absl::Status& status,
                                  const MeshAndLayout& parsed,
                                  const SessionOptions& options,
                                  const LauncherInfo& launcher) {
  const absl::StatusOr<std::unique_ptr<Communicator>> job =
      JobCommunicator(launcher.size, JobPurpose::kSession);
  if (!job.ok()) return status.ok() ? job.status() : status;
  MTF_RETURN_IF_ERROR(SignIn(**job, "the creation of a session"));
  MTF_RETURN_IF_ERROR(AgreeOnStatus(**job, status));
  return CheckSamePlan(
      **job, FieldsOfSession(parsed.mesh, parsed.rules, options.strict_layout,
                             options.backend, options.seed));
}

absl::StatusOr<Targets> TargetsOf(const Graph& graph, const RunRequest& request,
                                  bool shards) {
  MTF_RETURN_IF_ERROR(graph.CheckTensors(request.fetches, "fetch"));
  MTF_RETURN_IF_ERROR(graph.CheckTensors(request.updates, "update"));
  Targets targets;
  targets.fetch_shards = shards;
  targets.updates = request.updates;
  std::set<std::string> seen;
  for (Tensor tensor : request.fetches) {
    if (seen.insert(tensor.name()).second) targets.fetches.push_back(tensor);
  }
  return targets;
}

// The ids of the variables with these names.
absl::StatusOr<std::vector<int>> IdsOf(const Graph& graph,
                                       const std::vector<std::string>& names) {
  std::vector<int> ids;
  if (names.empty()) return ids;
  std::map<std::string, int> id_of;
  std::vector<std::string> all;
  for (const VariableInfo& variable : graph.variables()) {
    id_of[variable.name] = variable.id;
    all.push_back(variable.name);
  }
  for (const std::string& name : names) {
    const auto at = id_of.find(name);
    if (at == id_of.end()) return NoSuchName("variable", name, all);
    ids.push_back(at->second);
  }
  return ids;
}

}  // namespace

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::~Session() = default;

absl::StatusOr<std::unique_ptr<Session>> Session::Create(
    const Graph& graph, absl::string_view mesh, absl::string_view layout,
    const SessionOptions& options) {
  const LauncherInfo launcher = DetectLauncher();
  const bool launched = options.ranks == RankKind::kMpi ||
                        (options.ranks == RankKind::kAuto && launcher.size > 1);
  auto state = std::make_unique<State>();
  state->graph = &graph;
  state->options = options;
  MeshAndLayout parsed;
  const absl::Status bound = CatchExceptions([&]() -> absl::Status {
    MTF_RETURN_IF_ERROR(graph.status());
    MTF_ASSIGN_OR_RETURN(
        parsed, ParseMeshAndLayout(mesh, layout, launched ? launcher.size : 0));
    MTF_ASSIGN_OR_RETURN(state->binding,
                         BindLayoutAndBudget(graph, parsed.mesh, parsed.rules,
                                             options.strict_layout));
    return absl::OkStatus();
  });
  if (options.collective_timeout >= 0) {
    SetCollectiveTimeout(options.collective_timeout);
  }
  MTF_RETURN_IF_ERROR(
      launched ? AgreeOnMeshAndLayout(bound, parsed, options, launcher)
               : bound);
  state->notices = state->binding.rules.notices();
  MTF_ASSIGN_OR_RETURN(state->ranks, RankSet::Create(parsed.mesh, launched));
  state->threads = options.threads_per_rank > 0
                       ? options.threads_per_rank
                       : state->ranks->communicator(0).placement().threads;
  MTF_RETURN_IF_ERROR(state->MakeDevices());
  state->host_trace = std::make_unique<HostTrace>(
      state->ranks->communicator(0).rank(),
      !options.trace.empty() && options.trace_steps > 0);
  return std::unique_ptr<Session>(new Session(std::move(state)));
}

absl::Status Session::Initialize(const InitializeOptions& options) {
  Targets targets;
  targets.initialize = true;
  MTF_ASSIGN_OR_RETURN(targets.set_by_caller,
                       IdsOf(graph(), options.set_by_caller));
  MTF_ASSIGN_OR_RETURN(State::Compiled * compiled, state_->Compile(targets));
  state_->step = 0;
  MTF_RETURN_IF_ERROR(state_->Step({}, targets, *compiled).status());
  const Program& program = compiled->program;
  for (const ProgramVariable& variable : program.variables) {
    state_->initialized.insert(variable.name);
  }
  state_->stored = Program();
  state_->stored.mesh = program.mesh;
  state_->stored.grains = program.grains;
  state_->stored.variables = program.variables;
  // A step starts without the memory of the initialization.
  state_->Forget(targets);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<HostTensor>> Session::Run(
    const RunRequest& request) {
  MTF_ASSIGN_OR_RETURN(const Targets targets,
                       TargetsOf(graph(), request, /*shards=*/false));
  MTF_ASSIGN_OR_RETURN(State::Compiled * compiled, state_->Compile(targets));
  MTF_RETURN_IF_ERROR(CheckInitialized(compiled->program));
  state_->ReportUntrained(targets, *compiled);
  MTF_ASSIGN_OR_RETURN(std::vector<State::Feeds> outputs,
                       state_->Step(request, targets, *compiled));
  std::vector<HostTensor> fetches;
  for (Tensor tensor : request.fetches) {
    fetches.push_back(outputs[0].at(tensor.name()));
  }
  return fetches;
}

absl::StatusOr<std::vector<std::vector<TensorShard>>> Session::RunShards(
    const RunRequest& request) {
  MTF_ASSIGN_OR_RETURN(const Targets targets,
                       TargetsOf(graph(), request, /*shards=*/true));
  MTF_ASSIGN_OR_RETURN(State::Compiled * compiled, state_->Compile(targets));
  MTF_RETURN_IF_ERROR(CheckInitialized(compiled->program));
  state_->ReportUntrained(targets, *compiled);
  MTF_ASSIGN_OR_RETURN(std::vector<State::Feeds> outputs,
                       state_->Step(request, targets, *compiled));
  std::vector<std::vector<TensorShard>> fetches;
  for (Tensor tensor : request.fetches) {
    const ProgramValue& value = OutputValue(compiled->program, tensor.name());
    std::vector<TensorShard>& shards = fetches.emplace_back();
    for (int i = 0; i < state_->ranks->size(); ++i) {
      const int64_t rank = state_->ranks->communicator(i).rank();
      shards.push_back(ZeroShard(compiled->program, value, rank));
      shards.back().values = outputs[i].at(tensor.name());
    }
  }
  return fetches;
}

absl::StatusOr<std::vector<TensorShard>> Session::InputShards(
    const RunRequest& request, absl::string_view name) {
  MTF_ASSIGN_OR_RETURN(const Program* program, ProgramOf(request));
  MTF_ASSIGN_OR_RETURN(const ProgramValue* value, FindInput(*program, name));
  std::vector<TensorShard> shards;
  for (int i = 0; i < state_->ranks->size(); ++i) {
    const int64_t rank = state_->ranks->communicator(i).rank();
    shards.push_back(ZeroShard(*program, *value, rank));
  }
  return shards;
}

absl::StatusOr<HostTensor> Session::ReadVariable(absl::string_view name) {
  std::vector<std::string> names;
  for (const VariableInfo& variable : graph().variables()) {
    if (variable.name == name) {
      MTF_ASSIGN_OR_RETURN(std::vector<HostTensor> values,
                           Run({.fetches = {variable.read}}));
      return std::move(values[0]);
    }
    names.push_back(variable.name);
  }
  return NoSuchName("variable", name, names);
}

absl::StatusOr<const Program*> Session::ProgramOf(const RunRequest& request) {
  MTF_ASSIGN_OR_RETURN(const Targets targets,
                       TargetsOf(graph(), request, /*shards=*/false));
  MTF_ASSIGN_OR_RETURN(const State::Compiled* compiled,
                       state_->Compile(targets));
  return &compiled->program;
}

AttentionSupport Session::attention() const {
  return state_->devices[0]->attention();
}

FusionCapabilities Session::fusion() const {
  return state_->devices[0]->fusion();
}

absl::Status Session::CheckInitialized(const Program& program) const {
  for (const ProgramVariable& variable : program.variables) {
    MTF_RETURN_IF_ERROR(CheckInitialized(variable.name));
  }
  return absl::OkStatus();
}

absl::Status Session::CheckInitialized(const std::string& variable) const {
  if (state_->initialized.contains(variable)) return absl::OkStatus();
  if (state_->initialized.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the variables have no values yet",
                     DetailLine("help", "call Initialize() before Run()")));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "variable \"", variable, "\" was created after the session",
      DetailLine("help", "complete the graph before Session::Create()")));
}

absl::Status Session::Agree(const absl::Status& status) {
  MTF_RETURN_IF_ERROR(state_->ranks->SignIn("a call of Session::Agree()"));
  return state_->ranks->Agree(status);
}

const CollectiveCounts& Session::counts() const {
  return state_->DataCommunicator(0).counts();
}

void Session::ResetCounts() {
  for (int i = 0; i < state_->ranks->size(); ++i) {
    state_->DataCommunicator(i).ResetCounts();
  }
}

const std::vector<std::string>& Session::notices() const {
  return state_->notices;
}

const std::map<std::string, double>& Session::summaries() const {
  return state_->summaries;
}

HostTrace& Session::host_trace() { return *state_->host_trace; }

bool Session::is_primary() const {
  return state_->ranks->communicator(0).rank() == 0;
}

const Graph& Session::graph() const { return *state_->graph; }
const Mesh& Session::mesh() const { return state_->binding.mesh; }
const LayoutBinding& Session::binding() const { return state_->binding; }
uint32_t Session::seed() const { return state_->options.seed; }
int64_t Session::step() const { return state_->step; }
int Session::threads_per_rank() const { return state_->threads; }

}  // namespace mtf::train
