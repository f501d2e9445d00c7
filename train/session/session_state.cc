// SPDX-License-Identifier: Apache-2.0
#include "train/session/session_state.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/communicators/rank_errors.h"
#include "backends/executor/collective_kernel.h"
#include "layouts/text_items.h"
#include "mtf/exceptions.h"
#include "mtf/status.h"
#include "planning/cost/check_budget.h"
#include "train/session/plan_check.h"
#include "train/session/printed_line.h"

namespace mtf::train {
namespace {

// The key of a program in the session's cache.
std::vector<int> KeyOf(const Targets& targets) {
  std::vector<int> key = {targets.initialize, targets.fetch_shards,
                          static_cast<int>(targets.fetches.size())};
  for (Tensor tensor : targets.fetches) key.push_back(tensor.id());
  for (Tensor tensor : targets.updates) key.push_back(tensor.id());
  key.insert(key.end(), targets.set_by_caller.begin(),
             targets.set_by_caller.end());
  return key;
}

std::vector<Tensor> TensorsOf(const Targets& targets) {
  std::vector<Tensor> tensors = targets.fetches;
  tensors.insert(tensors.end(), targets.updates.begin(), targets.updates.end());
  return tensors;
}

// Checks that the graph has an Input for every feed. The program may need only
// some of them.
absl::Status CheckFeeds(const Graph& graph, const RunRequest& request) {
  if (request.feeds.empty() && request.feed_shards.empty()) {
    return absl::OkStatus();
  }
  const std::vector<std::string> names = graph.InputNames();
  const auto check = [&names](const std::string& name) {
    if (std::binary_search(names.begin(), names.end(), name)) {
      return absl::OkStatus();
    }
    return NoSuchName("input of the graph", name, names);
  };
  for (const auto& [name, feed] : request.feeds) {
    MTF_RETURN_IF_ERROR(check(name));
    MTF_RETURN_IF_ERROR(CheckValue("the feed of", name, feed));
  }
  for (const auto& [name, shards] : request.feed_shards) {
    MTF_RETURN_IF_ERROR(check(name));
  }
  return absl::OkStatus();
}

}  // namespace

// Creates the device, the communicator and the variable store of each rank of
// this process.
absl::Status Session::State::MakeDevices() {
  devices.resize(ranks->size());
  connections.resize(ranks->size());
  MTF_RETURN_IF_ERROR(
      ranks->RunAgreed([&](int i, Communicator& communicator) -> absl::Status {
        MTF_ASSIGN_OR_RETURN(
            devices[i],
            CreateDevice(options.backend,
                         {.num_threads = threads,
                          .local_rank = communicator.placement().local_rank}));
        return absl::OkStatus();
      }));
  MTF_RETURN_IF_ERROR(
      ranks->Run([&](int i, Communicator& communicator) -> absl::Status {
        devices[i]->EnterThread();
        MTF_ASSIGN_OR_RETURN(connections[i], devices[i]->Connect(communicator));
        return absl::OkStatus();
      }));
  for (std::unique_ptr<Device>& device : devices) {
    variables.push_back(std::make_unique<VariableStore>(*device));
    step_memory.push_back(std::make_unique<StepMemory>(*device));
  }
  return absl::OkStatus();
}

// Lowers the program, checks its budget, and checks that every process has the
// same program.
absl::Status Session::State::Plan(const Targets& targets,
                                  Compiled& compiled) const {
  Program& program = compiled.program;
  const absl::Status status = CatchExceptions([&]() -> absl::Status {
    MTF_ASSIGN_OR_RETURN(program, Lower(*graph, binding, targets,
                                        {.attention = devices[0]->attention(),
                                         .fusion = devices[0]->fusion()}));
    return CheckBudget(program, binding.budget);
  });
  if (!ranks->launched()) return status;
  MTF_RETURN_IF_ERROR(ranks->Agree(status));
  const std::vector<PlanField> fields = FieldsOfProgram(program);
  compiled.fingerprint = StableHash(fields[0].value);
  compiled.request = RequestText(targets, compiled.fingerprint);
  return CheckSamePlan(ranks->communicator(0), fields);
}

absl::StatusOr<Session::State::Compiled*> Session::State::Compile(
    const Targets& targets) {
  const std::vector<int> key = KeyOf(targets);
  const auto [entry, is_new] = compiled.try_emplace(key);
  Compiled& result = entry->second;
  result.last_use = ++uses;
  if (!is_new && !result.executors.empty()) return &result;
  const absl::Status status = CatchExceptions([&]() -> absl::Status {
    MTF_RETURN_IF_ERROR(ranks->SignIn(StableHash(RequestText(targets, 0)), [&] {
      return JointCall{is_new ? "the first use" : "the preparation",
                       RequestText(targets, 0)};
    }));
    if (is_new) {
      EvictOldestProgram();
      MTF_RETURN_IF_ERROR(Plan(targets, result));
    }
    return Prepare(result);
  });
  if (!status.ok()) {
    compiled.erase(entry);
    return status;
  }
  for (const std::string& notice : result.program.notices) AddNotice(notice);
  return &result;
}

// Creates the executors of a program. They share the memory of a step with
// those of other programs: if they need more, the others are prepared again
// before their next run. Ranks need equal memory, so they do so together.
absl::Status Session::State::Prepare(Compiled& program) {
  const int64_t replaced = step_memory[0]->replacements();
  std::vector<std::unique_ptr<Executor>> executors(ranks->size());
  // Before Executor::Create, which may fail on one rank only.
  MTF_RETURN_IF_ERROR(ranks->Run([&](int i, Communicator&) {
    devices[i]->EnterThread();
    return OpenGroups(program.program, DataCommunicator(i));
  }));
  const absl::Status created = ranks->RunAgreed([&](int i, Communicator&) {
    absl::StatusOr<std::unique_ptr<Executor>> executor =
        Executor::Create(program.program, *devices[i], DataCommunicator(i),
                         *variables[i], step_memory[i].get());
    if (executor.ok()) executors[i] = *std::move(executor);
    return executor.status();
  });
  if (!created.ok() || step_memory[0]->replacements() != replaced) {
    for (auto& [key, other] : compiled) other.executors.clear();
  }
  MTF_RETURN_IF_ERROR(created);
  program.executors = std::move(executors);
  // Collective, so only after all ranks have prepared the program.
  return ranks->Run([&](int i, Communicator&) {
    return DataCommunicator(i).SettleChoices();
  });
}

// Forgets a program that does not run again soon, and frees the memory of a
// step if no other program holds it.
void Session::State::Forget(const Targets& targets) {
  compiled.erase(KeyOf(targets));
  for (const auto& [key, other] : compiled) {
    if (!other.executors.empty()) return;
  }
  for (std::unique_ptr<StepMemory>& memory : step_memory) memory->Release();
}

// Evicts the least recently used program if the cache, with a new one, is
// fuller than it may be. All ranks evict the same program, because they make
// the same calls.
void Session::State::EvictOldestProgram() {
  if (compiled.size() <= kMaxPrograms) return;
  compiled.erase(std::min_element(
      compiled.begin(), compiled.end(), [](const auto& a, const auto& b) {
        return a.second.last_use < b.second.last_use;
      }));
}

// Adds a notice for trainable parameters that a program reads when it runs for
// the first time, and that keep their initial values.
void Session::State::ReportUntrained(const Targets& targets,
                                     Compiled& compiled) {
  if (compiled.reported) return;
  compiled.reported = true;
  const std::string notice = untrained.Report(*graph, TensorsOf(targets));
  if (!notice.empty()) AddNotice(notice);
}

// Adds a notice unless there is one like it.
void Session::State::AddNotice(const std::string& notice) {
  if (std::find(notices.begin(), notices.end(), notice) != notices.end()) {
    return;
  }
  notices.push_back(notice);
  if (options.on_notice != nullptr) options.on_notice(notice);
}

// Checks that all processes run the same step of the same program next.
absl::Status Session::State::SignInForStep(const Compiled& compiled) {
  // Mixed by an odd factor, as in StableHash.
  const uint64_t fingerprint =
      (compiled.fingerprint ^ static_cast<uint64_t>(step)) * 0x100000001b3;
  const absl::Status status = ranks->SignIn(fingerprint, [&] {
    return JointCall{absl::StrCat("step ", step), compiled.request};
  });
  if (!absl::IsDeadlineExceeded(status)) return status;
  std::string last;
  for (int64_t rank : MissingRanksOf(status)) {
    const std::string position = compiled.executors[0]->DescribeRank(rank);
    if (position.empty()) continue;
    absl::StrAppend(&last, DetailLine("last", absl::StrCat("rank ", rank,
                                                           " was ", position)));
  }
  // The last detail says how to change the limit.
  std::string message(status.message());
  message.insert(std::min(message.rfind("\n  help"), message.size()), last);
  return absl::DeadlineExceededError(message);
}

// Runs `compiled` on every rank and returns the fetches of each rank by name.
absl::StatusOr<std::vector<Session::State::Feeds>> Session::State::Step(
    const RunRequest& request, const Targets& targets, Compiled& compiled) {
  MTF_RETURN_IF_ERROR(CheckFeeds(*graph, request));
  MTF_RETURN_IF_ERROR(SignInForStep(compiled));
  const bool first_run = !compiled.has_run;
  if (ranks->launched() && first_run) {
    MTF_RETURN_IF_ERROR(
        CheckSamePlan(ranks->communicator(0), FieldsOfFeeds(request.feeds)));
  }
  compiled.has_run = true;
  std::vector<Feeds> outputs(ranks->size());
  std::vector<Feeds> feeds;
  if (!request.feed_shards.empty()) {
    // Shards may be wrong in one process only, so processes must agree.
    feeds.assign(ranks->size(), request.feeds);
    MTF_RETURN_IF_ERROR(
        ranks->RunAgreed([&](int i, Communicator& communicator) {
          return AddFeedShards(compiled.program, communicator.rank(),
                               request.feed_shards, feeds[i]);
        }));
  }
  const bool traced = !options.trace.empty() && !targets.updates.empty() &&
                      traced_steps < options.trace_steps;
  std::vector<std::unique_ptr<StepTrace>> traces(ranks->size());
  MTF_RETURN_IF_ERROR(ranks->Run([&](int i, Communicator& communicator) {
    Executor& executor = *compiled.executors[i];
    if (traced) {
      traces[i] =
          std::make_unique<StepTrace>(compiled.program, communicator.rank());
    }
    executor.TraceInto(traces[i].get());
    const absl::Status ran =
        executor.Run(feeds.empty() ? request.feeds : feeds[i], options.seed,
                     static_cast<uint32_t>(step), &outputs[i]);
    executor.TraceInto(nullptr);
    return ran;
  }));
  if (traced) MTF_RETURN_IF_ERROR(WriteTraces(traces));
  if (!targets.updates.empty()) ++step;
  if (first_run) untrained.NoteRun(*graph, TensorsOf(targets));
  MTF_RETURN_IF_ERROR(Observe(outputs[0]));
  return outputs;
}

// Shows the prints and keeps the summaries among the outputs of a step.
absl::Status Session::State::Observe(const Feeds& outputs) {
  summaries.clear();
  for (const Observation& observation : graph->observations()) {
    const auto shown = outputs.find(observation.shown.name());
    if (shown == outputs.end()) continue;
    if (observation.kind == Observation::Kind::kSummary) {
      MTF_ASSIGN_OR_RETURN(summaries[observation.text], shown->second.At(0));
      continue;
    }
    if (ranks->communicator(0).rank() != 0) continue;
    const std::string line = PrintedLine(observation, shown->second);
    if (options.on_print != nullptr) {
      options.on_print(line);
    } else {
      std::cerr << line << std::endl;
    }
  }
  return absl::OkStatus();
}

// Adds a step of all ranks to the trace, and what other threads did until its
// end. Rank 0 rewrites the file each time, so
// it is complete whenever the run ends.
absl::Status Session::State::WriteTraces(
    const std::vector<std::unique_ptr<StepTrace>>& traces) {
  std::string mine;
  for (const std::unique_ptr<StepTrace>& trace : traces) {
    absl::StrAppend(&mine, trace->events());
  }
  ++traced_steps;
  absl::StrAppend(&mine, host_trace->Take());
  if (traced_steps == options.trace_steps) host_trace->Close();
  std::vector<std::string> all = {mine};
  if (ranks->launched()) {
    MTF_ASSIGN_OR_RETURN(all, ranks->communicator(0).AllGatherText(mine));
  }
  absl::Status written;
  if (ranks->communicator(0).rank() == 0) {
    absl::StrAppend(&trace_events, absl::StrJoin(all, ""));
    std::ofstream file(options.trace, std::ios::binary);
    file << WriteTrace({trace_events}) << std::flush;
    if (!file) {
      written = absl::PermissionDeniedError(
          absl::StrCat("cannot write the trace to ", Quoted(options.trace),
                       DetailLine("help",
                                  "name a file in a folder that exists with "
                                  "--trace")));
    }
  }
  return ranks->Agree(written);
}

}  // namespace mtf::train
