// SPDX-License-Identifier: Apache-2.0
#include "train/session/session_state.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/executor/collective_kernel.h"
#include "layouts/text_items.h"
#include "mtf/exceptions.h"
#include "mtf/status.h"
#include "planning/cost/check_budget.h"
#include "train/session/plan_check.h"

namespace mtf::train {
namespace {

// The key of a program in the session's cache.
std::vector<int> KeyOf(const Targets& targets) {
  std::vector<int> key = {targets.initialize, targets.fetch_shards,
                          static_cast<int>(targets.fetches.size())};
  for (Tensor tensor : targets.fetches) key.push_back(tensor.operation()->id());
  for (Tensor tensor : targets.updates) key.push_back(tensor.operation()->id());
  return key;
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
  }
  return absl::OkStatus();
}

// Lowers the program, checks its budget, and checks that every process has the
// same program.
absl::Status Session::State::Plan(const Targets& targets,
                                  Program& program) const {
  const absl::Status status = CatchExceptions([&]() -> absl::Status {
    MTF_ASSIGN_OR_RETURN(program, Lower(*graph, binding, targets));
    if (binding.budget.empty()) return absl::OkStatus();
    // The budget applies to the memory that the device uses.
    Program planned = program;
    planned.buffers = devices[0]->Plan(program);
    return CheckBudget(planned, binding.budget);
  });
  if (!ranks->launched()) return status;
  MTF_RETURN_IF_ERROR(ranks->Agree(status));
  return CheckSamePlan(ranks->communicator(0), FieldsOfProgram(program));
}

absl::StatusOr<Session::State::Compiled*> Session::State::Compile(
    const Targets& targets) {
  const std::vector<int> key = KeyOf(targets);
  const auto known = compiled.find(key);
  if (known != compiled.end()) {
    known->second.last_use = ++uses;
    return &known->second;
  }
  EvictOldestProgram();
  const auto entry = compiled.try_emplace(key).first;
  Compiled& result = entry->second;
  result.last_use = ++uses;
  const absl::Status status = CatchExceptions([&]() -> absl::Status {
    MTF_RETURN_IF_ERROR(Plan(targets, result.program));
    result.executors.resize(ranks->size());
    // Before Executor::Create, which may fail on one rank only.
    MTF_RETURN_IF_ERROR(ranks->Run([&](int i, Communicator&) {
      devices[i]->EnterThread();
      return OpenGroups(result.program, DataCommunicator(i));
    }));
    MTF_RETURN_IF_ERROR(ranks->RunAgreed([&](int i, Communicator&) {
      absl::StatusOr<std::unique_ptr<Executor>> executor = Executor::Create(
          result.program, *devices[i], DataCommunicator(i), *variables[i]);
      if (executor.ok()) result.executors[i] = *std::move(executor);
      return executor.status();
    }));
    // Collective, so only after all ranks have prepared the program.
    return ranks->Run([&](int i, Communicator&) {
      return DataCommunicator(i).SettleChoices();
    });
  });
  if (!status.ok()) {
    compiled.erase(entry);
    return status;
  }
  return &result;
}

// Evicts the least recently used program if the cache is full. All ranks evict
// the same program, because they make the same calls.
void Session::State::EvictOldestProgram() {
  if (compiled.size() < kMaxPrograms) return;
  compiled.erase(std::min_element(
      compiled.begin(), compiled.end(), [](const auto& a, const auto& b) {
        return a.second.last_use < b.second.last_use;
      }));
}

// Runs `compiled` on every rank and returns the fetches of each rank by name.
absl::StatusOr<std::vector<Session::State::Feeds>> Session::State::Step(
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
  return outputs;
}

// Adds a step of all ranks to the trace. Rank 0 rewrites the file each time, so
// it is complete whenever the run ends.
absl::Status Session::State::WriteTraces(
    const std::vector<std::unique_ptr<StepTrace>>& traces) {
  std::string mine;
  for (const std::unique_ptr<StepTrace>& trace : traces) {
    absl::StrAppend(&mine, trace->events());
  }
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
  ++traced_steps;
  return ranks->Agree(written);
}

}  // namespace mtf::train
