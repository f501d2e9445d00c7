// SPDX-License-Identifier: Apache-2.0
//
// What a Session holds: ranks, devices, variables, and the programs made so
// far. session.cc speaks to the user, session_state.cc to the executors.
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
#include "backends/executor/trace.h"
#include "backends/executor/variable_store.h"
#include "train/session/rank_set.h"
#include "train/session/session.h"

namespace mtf::train {

struct Session::State {
  using Feeds = std::map<std::string, HostTensor>;

  // A program and its executors, one for each rank of this process.
  struct Compiled {
    Program program;
    bool has_run = false;
    int64_t last_use = 0;  // counted by State::uses
    std::vector<std::unique_ptr<Executor>> executors;
  };

  const Graph* graph = nullptr;
  LayoutBinding binding;
  SessionOptions options;
  int threads = 1;
  int64_t step = 0;
  // The variables that Initialize has given values.
  absl::flat_hash_set<std::string> initialized;
  // Destroyed from the last to the first: executors use all that is above.
  std::unique_ptr<RankSet> ranks;
  // By rank of this process: its device, what moves the memory of that (null:
  // the communicator of `ranks`), and its variables.
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Communicator>> connections;
  std::vector<std::unique_ptr<VariableStore>> variables;
  std::map<std::vector<int>, Compiled> compiled;
  int64_t uses = 0;
  int64_t traced_steps = 0;
  std::string trace_events;  // of all ranks, where rank 0 is

  // The communicator of rank `i` of this process, for its data.
  Communicator& Mover(int i) const {
    return connections[i] != nullptr ? *connections[i] : ranks->communicator(i);
  }
  absl::Status MakeDevices();
  absl::Status Plan(const Targets& targets, Program& program) const;
  absl::StatusOr<Compiled*> Compile(const Targets& targets);
  void MakeRoom();
  absl::Status WriteTraces(
      const std::vector<std::unique_ptr<StepTrace>>& traces);
  absl::StatusOr<std::vector<Feeds>> Step(const RunRequest& request,
                                          const Targets& targets,
                                          Compiled& compiled);
};

}  // namespace mtf::train

#endif  // TRAIN_SESSION_SESSION_STATE_H_
