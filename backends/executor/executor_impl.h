// SPDX-License-Identifier: Apache-2.0
//
// What an Executor holds. prepare_executor.cc makes it, executor.cc runs it.
#ifndef BACKENDS_EXECUTOR_EXECUTOR_IMPL_H_
#define BACKENDS_EXECUTOR_EXECUTOR_IMPL_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "backends/executor/collective_kernel.h"
#include "backends/executor/executor.h"
#include "backends/executor/fed_indices.h"
#include "backends/executor/stalled_ranks.h"

namespace mtf {

struct Executor::Impl {
  using HostTensors = std::map<std::string, HostTensor>;

  Impl(const Program& program, Device& device, Communicator& communicator,
       VariableStore& variables)
      : program(program),
        device(device),
        communicator(communicator),
        variables(variables) {}
  ~Impl() {
    if (arena != nullptr) device.Free(arena);
    for (void* buffer : extra) device.Free(buffer);
  }

  // One thing to do in a step: a kernel, a collective, or a value to fetch.
  struct Action {
    int instruction = 0;
    std::unique_ptr<Kernel> kernel = {};
    std::unique_ptr<CollectiveKernel> collective = {};
    std::unique_ptr<AsyncRunner> asynchronous = {};  // of a collective that runs so
    std::vector<size_t> waits = {};            // for actions that run asynchronous
    const Instruction* output = nullptr;
    int number = 0;         // of a collective, from 1
    const char* name = "";  // of what it makes; the program's
  };
  // A fetched value where the device keeps it until the step is over.
  struct Kept {
    const Instruction* output = nullptr;
    void* data = nullptr;
  };
  // A part of a step that runs, or is replayed, as one: some of `actions`, and
  // at the end of a step the new values of variables.
  struct Stretch {
    size_t begin = 0, end = 0;
    bool commits = false;
    std::unique_ptr<Replay> replay;
  };

  // Memory around collectives.
  struct Staging {
    void* before = nullptr;
    void* after = nullptr;
  };

  // --- prepare_executor.cc

  absl::Status Prepare();
  absl::Status Reserve();
  absl::Status ReserveStaging(bool asynchronous, Staging& staging);
  void PlaceValues();
  void FindFailures();
  absl::Status PrepareActions();
  absl::Status PrepareInstruction(int index);
  absl::StatusOr<bool> PrepareGroup(const std::vector<int>& members);
  absl::Status PrepareCollective(const Binding& binding);
  void PrepareWait(int index);
  absl::Status PrepareOutput(int index);
  absl::Status PrepareCommits();
  absl::StatusOr<void*> AllocateExtra(int64_t bytes);
  void* Address(int value) const;
  BoundValue Bind(int value) const;
  Binding BindInstruction(int index) const;
  const char* NameOf(int index) const;
  // "instruction  %h = einsum (layer_0/einsum_1, lm.cc:41)" below `status`.
  absl::Status Named(const absl::Status& status, int index) const;

  // --- executor.cc

  absl::Status Run(const HostTensors& feeds, uint32_t seed, uint32_t step,
                   HostTensors* outputs);
  absl::Status RunStep(const HostTensors& feeds, StepContext& context,
                       HostTensors* outputs);
  absl::Status Feed(const HostTensors& feeds);
  absl::StatusOr<bool> IndicesAreGood(const HostTensors& feeds);
  absl::Status RunSegment(Stretch& stretch, StepContext& context,
                          HostTensors* outputs);
  absl::Status Enqueue(const Stretch& stretch, StepContext& context,
                       HostTensors* outputs);
  absl::Status RunOneByOne(const Stretch& stretch, StepContext& context,
                           HostTensors* outputs);
  absl::Status RunAction(const Action& action, StepContext& context,
                         HostTensors* outputs);
  absl::Status RunCollective(const Action& action);
  absl::Status EnqueueAction(size_t i, StepContext& context,
                             HostTensors* outputs);
  void WaitFor(size_t action);
  absl::Status Finish(StepContext& context);
  absl::Status AgreeOnErrors(const StepContext& context);
  absl::Status Fetch(const Instruction& output, const void* data,
                     HostTensors* outputs);

  const Program& program;
  BufferPlan plan;  // of the device
  Device& device;
  Communicator& communicator;
  VariableStore& variables;
  void* arena = nullptr;
  // Shared by all collectives; those that run asynchronous follow one another and
  // share theirs.
  Staging staging, async_staging;
  bool overlaps = false;     // the device runs collectives asynchronous the rest
  std::vector<void*> extra;  // buffers besides the arena
  std::map<absl::string_view, void*> storage;  // of the program's variables
  std::vector<void*> addresses;                // by value
  std::vector<const Instruction*> inputs;

  std::vector<Action> actions;
  std::vector<size_t> under_way;  // actions that run asynchronous, while enqueuing
  absl::flat_hash_map<int, size_t>
      async_runner_of;  // by first result: its action
  std::vector<std::unique_ptr<Kernel>> commits;
  std::vector<Kept> kept;
  // Where something can fail on data, ranks agree between the two parts; where
  // nothing can, or nothing will, all is one.
  Stretch whole, before, after;
  bool can_fail = false;
  int commit = 0;  // the first instruction that waits for the agreement
  std::optional<IndexLimits> fed_indices;

  bool blocking = false;  // waits behind every action
  StepTrace* trace = nullptr;
  RankPosition position;   // of this rank, for those that wait for it
  int collectives = 0;     // prepared so far
  std::vector<char> host;  // scratch for feeds and fetches
  std::optional<StallWatch> watch;
};

}  // namespace mtf

#endif  // BACKENDS_EXECUTOR_EXECUTOR_IMPL_H_
