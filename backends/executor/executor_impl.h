// SPDX-License-Identifier: Apache-2.0
//
// The state of an Executor. prepare_executor.cc fills it, executor.cc runs it.
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
#include "backends/executor/step_memory.h"

namespace mtf {

struct Executor::Impl {
  using HostTensors = std::map<std::string, HostTensor>;

  Impl(const Program& program, Device& device, Communicator& communicator,
       VariableStore& variables, StepMemory* shared)
      : program(program),
        device(device),
        communicator(communicator),
        variables(variables),
        own_memory(device),
        memory(shared != nullptr ? *shared : own_memory) {}
  ~Impl() {
    for (void* buffer : extra) device.Free(buffer);
  }

  // One entry of the step's loop: a kernel, a collective, a wait or a fetch.
  struct Action {
    int instruction = 0;
    std::unique_ptr<Kernel> kernel = {};
    std::unique_ptr<CollectiveKernel> collective = {};
    std::unique_ptr<AsyncRunner> asynchronous = {};  // null: synchronous
    std::vector<size_t> waits = {};  // for these asynchronous actions
    const Instruction* output = nullptr;
    int number = 0;         // of a collective, from 1
    const char* name = "";  // of its first result; owned by the program
  };
  // A fetched value in device memory, to be copied to the host after the step.
  struct DeferredFetch {
    const Instruction* output = nullptr;
    void* data = nullptr;
  };
  // A segment of a step that runs, or is replayed, at once: a range of
  // `actions`, followed by the commits of variables if it ends the step.
  struct Segment {
    size_t begin = 0, end = 0;
    bool commits = false;
    std::unique_ptr<Replay> replay;
  };

  // The staging buffers of collectives, see StagingBytes.
  struct Staging {
    void* before = nullptr;
    void* after = nullptr;
  };

  // --- prepare_executor.cc

  absl::Status Prepare();
  absl::Status Reserve();
  absl::Status ReserveStaging(bool asynchronous, Staging& staging);
  void AssignAddresses();
  void FindFailures();
  absl::Status PrepareActions();
  absl::Status PrepareInstruction(int index);
  absl::StatusOr<bool> PrepareGroup(const FusedGroup& group);
  absl::Status PrepareCollective(const Binding& binding);
  void PrepareWait(int index);
  void PrepareHostCopy(int index);
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
  absl::StatusOr<bool> FeedsAreInRange(const HostTensors& feeds);
  absl::Status RunSegment(Segment& segment, StepContext& context,
                          HostTensors* outputs);
  absl::Status Enqueue(const Segment& segment, StepContext& context,
                       HostTensors* outputs);
  absl::Status RunOneByOne(const Segment& segment, StepContext& context,
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
  Device& device;
  Communicator& communicator;
  VariableStore& variables;
  StepMemory own_memory;  // empty if it is shared
  StepMemory& memory;
  void* arena = nullptr;
  // Shared by all synchronous and by all asynchronous collectives; the latter
  // run in order.
  Staging staging, async_staging;
  bool overlaps = false;     // the device supports asynchronous collectives
  std::vector<void*> extra;  // buffers besides `memory`
  std::map<absl::string_view, void*> storage;  // of the program's variables
  std::vector<void*> addresses;                // by value
  std::vector<const Instruction*> inputs;

  std::vector<Action> actions;
  // Asynchronous actions not yet waited for; used while enqueuing a segment.
  std::vector<size_t> in_flight;
  // The asynchronous action that produces a value, by its first result.
  absl::flat_hash_map<int, size_t> async_action_of;
  std::vector<std::unique_ptr<Kernel>> commits;
  std::vector<DeferredFetch> deferred_fetches;
  // If the step can fail on data, it runs as two segments and ranks agree on
  // errors in between; otherwise it runs as one.
  Segment full_step, before_agreement, after_agreement;
  bool can_fail = false;
  int commit = 0;  // the first instruction of `after_agreement`
  std::optional<IndexLimits> fed_indices;

  bool blocking = false;  // waits for the device after every action
  StepTrace* trace = nullptr;
  RankPosition position;   // of this rank, published to the others
  int collectives = 0;     // prepared so far
  std::vector<char> host;  // scratch for feeds and fetches
  std::optional<StallWatch> watch;
};

}  // namespace mtf

#endif  // BACKENDS_EXECUTOR_EXECUTOR_IMPL_H_
