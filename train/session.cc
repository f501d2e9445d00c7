// SPDX-License-Identifier: Apache-2.0
#include "train/session.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "backends/backend.h"
#include "backends/collective_kernel.h"
#include "backends/communicators/launcher.h"
#include "backends/communicators/wait_options.h"
#include "backends/executor.h"
#include "layouts/text_items.h"
#include "lowering/check_budget.h"
#include "mtf/exceptions.h"
#include "mtf/status.h"
#include "train/placement.h"
#include "train/plan_check.h"
#include "train/rank_set.h"

namespace mtf::train {
namespace {

using Feeds = std::map<std::string, HostTensor>;

// A program and its executors, one for each rank of this process.
struct Compiled {
  Program program;
  bool has_run = false;
  int64_t last_use = 0;  // counted by State::uses
  std::vector<std::unique_ptr<Executor>> executors;
};

// What tells the programs of a session apart: which, and of what.
std::vector<int> KeyOf(const Targets& targets) {
  std::vector<int> key = {targets.initialize, targets.fetch_shards,
                          static_cast<int>(targets.fetches.size())};
  for (Tensor tensor : targets.fetches) key.push_back(tensor.operation()->id());
  for (Tensor tensor : targets.updates) key.push_back(tensor.operation()->id());
  return key;
}

// Before ranks form groups by their meshes: the first error by rank, or that
// they disagree. A rank that is alone with either would leave the others
// waiting.
absl::Status AgreeOnPlacement(const absl::Status& status,
                              const Placement& placement,
                              const SessionOptions& options,
                              const LauncherInfo& launcher) {
  const absl::StatusOr<std::unique_ptr<Communicator>> job =
      JobCommunicator(launcher.size, JobPurpose::kSession);
  if (!job.ok()) return status.ok() ? job.status() : status;
  MTF_RETURN_IF_ERROR(AgreeOnStatus(**job, status));
  return CheckSamePlan(**job, FieldsOfSession(placement.mesh, placement.rules,
                                              options.strict_layout,
                                              options.backend, options.seed));
}

}  // namespace

struct Session::State {
  const Graph* graph = nullptr;
  LayoutBinding binding;
  SessionOptions options;
  int threads = 1;
  int64_t step = 0;
  // The variables that Initialize has given values.
  absl::flat_hash_set<std::string> initialized;
  // Destroyed from the last to the first: executors use all that is above.
  std::unique_ptr<RankSet> ranks;
  std::vector<std::unique_ptr<Device>> devices;           // by rank of this
  std::vector<std::unique_ptr<VariableStore>> variables;  // process
  std::map<std::vector<int>, Compiled> compiled;
  int64_t uses = 0;

  absl::Status Plan(const Targets& targets, Program& program) const;
  absl::StatusOr<Compiled*> Compile(const Targets& targets);
  void MakeRoom();
  absl::StatusOr<std::vector<Feeds>> Step(const RunRequest& request,
                                          const Targets& targets,
                                          Compiled& compiled);
};

namespace {

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

}  // namespace

// Lowers within the budget, and sees that every process has the same program.
absl::Status Session::State::Plan(const Targets& targets,
                                  Program& program) const {
  const absl::Status status = CatchExceptions([&]() -> absl::Status {
    MTF_ASSIGN_OR_RETURN(program, Lower(*graph, binding, targets));
    return CheckBudget(program, binding.budget);
  });
  if (!ranks->launched()) return status;
  MTF_RETURN_IF_ERROR(ranks->Agree(status));
  return CheckSamePlan(ranks->communicator(0), FieldsOfProgram(program));
}

absl::StatusOr<Compiled*> Session::State::Compile(const Targets& targets) {
  const std::vector<int> key = KeyOf(targets);
  const auto known = compiled.find(key);
  if (known != compiled.end()) {
    known->second.last_use = ++uses;
    return &known->second;
  }
  MakeRoom();
  const auto entry = compiled.try_emplace(key).first;
  Compiled& result = entry->second;
  result.last_use = ++uses;
  const absl::Status status = CatchExceptions([&]() -> absl::Status {
    MTF_RETURN_IF_ERROR(Plan(targets, result.program));
    result.executors.resize(ranks->size());
    // Apart from what follows, which may fail on one rank alone.
    MTF_RETURN_IF_ERROR(ranks->Run([&](int, Communicator& communicator) {
      return OpenGroups(result.program, communicator);
    }));
    return ranks->RunAgreed([&](int i, Communicator& communicator) {
      absl::StatusOr<std::unique_ptr<Executor>> executor = Executor::Create(
          result.program, *devices[i], communicator, *variables[i]);
      if (executor.ok()) result.executors[i] = *std::move(executor);
      return executor.status();
    });
  });
  if (!status.ok()) {
    compiled.erase(entry);
    return status;
  }
  return &result;
}

// Drops the program that was used the longest ago where there are as many as a
// session keeps. All ranks drop the same one: they make the same calls.
void Session::State::MakeRoom() {
  if (compiled.size() < kMostPrograms) return;
  compiled.erase(std::min_element(
      compiled.begin(), compiled.end(), [](const auto& a, const auto& b) {
        return a.second.last_use < b.second.last_use;
      }));
}

// Runs `compiled` on every rank; the fetches of each rank by name.
absl::StatusOr<std::vector<Feeds>> Session::State::Step(
    const RunRequest& request, const Targets& targets, Compiled& compiled) {
  for (const auto& [name, feed] : request.feeds) {
    MTF_RETURN_IF_ERROR(FindInput(compiled.program, name).status());
  }
  if (ranks->launched() && !compiled.has_run) {
    MTF_RETURN_IF_ERROR(
        CheckSamePlan(ranks->communicator(0), FieldsOfFeeds(request.feeds)));
    compiled.has_run = true;
  }
  std::vector<Feeds> outputs(ranks->size());
  std::vector<Feeds> feeds;
  if (!request.feed_shards.empty()) {
    // Only this process may know that its shards are wrong.
    feeds.assign(ranks->size(), request.feeds);
    MTF_RETURN_IF_ERROR(
        ranks->RunAgreed([&](int i, Communicator& communicator) {
          return AddFeedShards(compiled.program, communicator.rank(),
                               request.feed_shards, feeds[i]);
        }));
  }
  MTF_RETURN_IF_ERROR(ranks->Run([&](int i, Communicator&) {
    return compiled.executors[i]->Run(feeds.empty() ? request.feeds : feeds[i],
                                      options.seed, static_cast<uint32_t>(step),
                                      &outputs[i]);
  }));
  if (!targets.updates.empty()) ++step;
  return outputs;
}

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
  Placement placement;
  const absl::Status bound = CatchExceptions([&]() -> absl::Status {
    MTF_RETURN_IF_ERROR(graph.status());
    MTF_ASSIGN_OR_RETURN(
        placement, ParsePlacement(mesh, layout, launched ? launcher.size : 0));
    MTF_ASSIGN_OR_RETURN(state->binding,
                         BindLayout(graph, placement.mesh, placement.rules,
                                    options.strict_layout));
    return absl::OkStatus();
  });
  MTF_RETURN_IF_ERROR(
      launched ? AgreeOnPlacement(bound, placement, options, launcher) : bound);
  if (options.collective_timeout >= 0) {
    SetCollectiveTimeout(options.collective_timeout);
  }
  MTF_ASSIGN_OR_RETURN(state->ranks, RankSet::Create(placement.mesh, launched));
  state->threads = options.threads_per_rank > 0
                       ? options.threads_per_rank
                       : state->ranks->communicator(0).placement().threads;
  const DeviceOptions device_options = {.num_threads = state->threads};
  state->devices.resize(state->ranks->size());
  MTF_RETURN_IF_ERROR(state->ranks->RunAgreed([&](int i, Communicator&) {
    absl::StatusOr<std::unique_ptr<Device>> device =
        CreateDevice(options.backend, device_options);
    if (device.ok()) state->devices[i] = *std::move(device);
    return device.status();
  }));
  for (std::unique_ptr<Device>& device : state->devices) {
    state->variables.push_back(std::make_unique<VariableStore>(*device));
  }
  return std::unique_ptr<Session>(new Session(std::move(state)));
}

absl::Status Session::Initialize() {
  Targets targets;
  targets.initialize = true;
  MTF_ASSIGN_OR_RETURN(Compiled * compiled, state_->Compile(targets));
  state_->step = 0;
  MTF_RETURN_IF_ERROR(state_->Step({}, targets, *compiled).status());
  for (const ProgramVariable& variable : compiled->program.variables) {
    state_->initialized.insert(variable.name);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<HostTensor>> Session::Run(
    const RunRequest& request) {
  MTF_ASSIGN_OR_RETURN(const Targets targets,
                       TargetsOf(graph(), request, /*shards=*/false));
  MTF_ASSIGN_OR_RETURN(Compiled * compiled, state_->Compile(targets));
  MTF_RETURN_IF_ERROR(CheckInitialized(compiled->program));
  MTF_ASSIGN_OR_RETURN(std::vector<Feeds> outputs,
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
  MTF_ASSIGN_OR_RETURN(Compiled * compiled, state_->Compile(targets));
  MTF_RETURN_IF_ERROR(CheckInitialized(compiled->program));
  MTF_ASSIGN_OR_RETURN(std::vector<Feeds> outputs,
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
  MTF_ASSIGN_OR_RETURN(const Compiled* compiled, state_->Compile(targets));
  return &compiled->program;
}

absl::Status Session::CheckInitialized(const Program& program) const {
  for (const ProgramVariable& variable : program.variables) {
    if (state_->initialized.contains(variable.name)) continue;
    if (state_->initialized.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the variables have no values yet",
                       DetailLine("help", "call Initialize() before Run()")));
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "variable \"", variable.name, "\" was made after the session",
        DetailLine("help", "complete the graph before Session::Create()")));
  }
  return absl::OkStatus();
}

absl::Status Session::Agree(const absl::Status& status) {
  return state_->ranks->Agree(status);
}

const CollectiveCounts& Session::counts() const {
  return state_->ranks->communicator(0).counts();
}

void Session::ResetCounts() {
  for (int i = 0; i < state_->ranks->size(); ++i) {
    state_->ranks->communicator(i).ResetCounts();
  }
}

const std::vector<std::string>& Session::notices() const {
  return state_->binding.rules.notices();
}

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
