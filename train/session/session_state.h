// SPDX-License-Identifier: Apache-2.0
//
// The state of a Session: ranks, devices, variables and prepared programs.
// session.cc implements the user's interface, session_state.cc uses the
// executors.
#ifndef TRAIN_SESSION_SESSION_STATE_H_
#define TRAIN_SESSION_SESSION_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "backends/backend.h"
#include "backends/executor/executor.h"
#include "backends/executor/step_memory.h"
#include "backends/executor/trace.h"
#include "backends/executor/variable_store.h"
#include "train/session/rank_set.h"
#include "train/session/session.h"
#include "train/session/untrained_parameters.h"

namespace mtf::train {

struct Session::State {
  using Feeds = std::map<std::string, HostTensor>;

  // A program and its executors, one for each rank of this process.
  struct Compiled {
    Program program;
    std::string request;       // see RequestText
    uint64_t fingerprint = 0;  // of the program; the same in every process
    bool has_run = false;
    bool reported = false;  // untrained parameters
    int64_t last_use = 0;   // counted by State::uses
    // Empty if they must be created again, in memory that has become larger.
    std::vector<std::unique_ptr<Executor>> executors;
  };

  const Graph* graph = nullptr;
  LayoutBinding binding;
  SessionOptions options;
  int threads = 1;
  int64_t step = 0;
  // The variables that Initialize has set, by name, and a program without
  // instructions that has them.
  absl::flat_hash_set<std::string> initialized;
  Program stored;
  std::vector<std::string> notices;
  std::map<std::string, double> summaries;  // of the last step
  UntrainedParameters untrained;
  // Members are destroyed in reverse order: executors use all members above.
  std::unique_ptr<RankSet> ranks;
  // By rank of this process: its device, the communicator of the device's
  // memory (null: that of `ranks`), its variables, and the memory that the
  // programs share.
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Communicator>> connections;
  std::vector<std::unique_ptr<VariableStore>> variables;
  std::vector<std::unique_ptr<StepMemory>> step_memory;
  std::map<std::vector<int>, Compiled> compiled;
  int64_t uses = 0;
  int64_t traced_steps = 0;
  std::unique_ptr<HostTrace> host_trace;
  std::string trace_events;  // of all ranks; only in the process of rank 0

  // The communicator for the device memory of rank `i` of this process.
  Communicator& DataCommunicator(int i) const {
    return connections[i] != nullptr ? *connections[i] : ranks->communicator(i);
  }
  absl::Status MakeDevices();
  absl::Status Plan(const Targets& targets, Compiled& compiled) const;
  absl::StatusOr<Compiled*> Compile(const Targets& targets);
  absl::Status Prepare(Compiled& program);
  void Forget(const Targets& targets);
  void EvictOldestProgram();
  void ReportUntrained(const Targets& targets, Compiled& compiled);
  void AddNotice(const std::string& notice);
  absl::Status Store(const std::string& name, const HostTensor& value, int i);
  absl::Status WriteTraces(
      const std::vector<std::unique_ptr<StepTrace>>& traces);
  absl::Status Observe(const Feeds& outputs);
  absl::Status SignInForStep(const Compiled& compiled);
  absl::StatusOr<std::vector<Feeds>> Step(const RunRequest& request,
                                          const Targets& targets,
                                          Compiled& compiled);
};

}  // namespace mtf::train

#endif  // TRAIN_SESSION_SESSION_STATE_H_
