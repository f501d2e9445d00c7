// SPDX-License-Identifier: Apache-2.0
//
// The interface of a backend: a Device prepares the instructions of a program
// as kernels, and a Communicator (communicator.h) moves data between ranks.
// The executor prepares every instruction once; a step is a flat loop over the
// prepared kernels and collectives.
#ifndef BACKENDS_BACKEND_H_
#define BACKENDS_BACKEND_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "layouts/shard.h"
#include "lowering/fusion/fusion_capabilities.h"
#include "lowering/program/fused_attention.h"
#include "lowering/program/program.h"

namespace mtf {

// The shard of a value on one rank: dense row-major memory with dims[i].extent
// elements along dimension i. The first dims[i].valid of them are data; the
// rest are padding and may hold anything.
struct BoundValue {
  void* data = nullptr;
  const ProgramValue* value = nullptr;
  std::vector<ShardedDimension> dims;  // in the order of value->shape

  DType dtype() const { return value->dtype; }
  int64_t elements() const {
    int64_t n = 1;
    for (const ShardedDimension& dim : dims) n *= dim.extent;
    return n;
  }
  // Distance in elements between neighbours along dimension `i`.
  int64_t stride(int i) const {
    int64_t n = 1;
    for (size_t j = i + 1; j < dims.size(); ++j) n *= dims[j].extent;
    return n;
  }
};

// A failure that depends on data, such as an index out of range. Ranks agree on
// the failure with the smallest (instruction, position), so every layout
// reports the same one.
struct StepError {
  int64_t instruction = INT64_MAX;
  int64_t position = INT64_MAX;  // global row-major index in the operand
  int64_t index = 0;             // the operand's value at that position
  bool ok() const { return instruction == INT64_MAX; }
};

// The state of a step that kernels read, and the first error they report.
struct StepContext {
  uint32_t seed = 0;
  uint32_t step = 0;
  StepError error;

  // Records an error; of several, the first in (instruction, position) order is
  // kept.
  void Report(int64_t instruction, int64_t position, int64_t index);
};

// An instruction bound to its buffers.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void Run(StepContext& context) = 0;
};

// An instruction with the buffers of one rank. The addresses of operands and
// results stay valid for the lifetime of the kernel.
struct Binding {
  const Program* program = nullptr;
  int index = 0;  // of the instruction in the program
  int64_t rank = 0;
  std::vector<BoundValue> operands;
  std::vector<BoundValue> results;
  // For a reduce: this rank's shard of the iteration space.
  std::vector<ShardedDimension> iteration;

  const Instruction& instruction() const {
    return program->instructions[index];
  }
};

// A strided copy of `outer` x `blocks` x `inner` bytes: byte [o][b][i] of the
// source goes to byte [o][b][i] of the destination, each with its own strides.
// Used to pack and unpack the buffers of collectives.
struct BlockCopy {
  int64_t outer = 1, blocks = 1, inner = 0;  // inner in bytes
  int64_t from_outer = 0, from_block = 0;    // strides in bytes
  int64_t to_outer = 0, to_block = 0;
};

class Communicator;

// A recorded segment of a step, owned by the device that can replay it.
class Replay {
 public:
  virtual ~Replay() = default;
};

// Runs a collective asynchronously on a second stream.
class AsyncRunner {
 public:
  virtual ~AsyncRunner() = default;
  // Enqueues the work of `work` after everything enqueued before this call.
  // Later kernels may overlap with it. The work of several calls runs in the
  // order of the calls.
  virtual absl::Status Run(const std::function<absl::Status()>& work) = 0;
  // Makes everything enqueued from now on wait for the work of Run.
  virtual void Wait() = 0;
};

// Runs instructions on one rank: allocates memory and prepares kernels.
// Implementations: backends/cpu, backends/reference, backends/cuda.
class Device {
 public:
  virtual ~Device() = default;

  virtual absl::string_view name() const = 0;

  // Called on each thread before it prepares or runs kernels, so that the
  // device can size that thread's pool.
  virtual void EnterThread() {}

  // Allocates device memory, aligned to 64 bytes and zeroed.
  virtual absl::StatusOr<void*> Allocate(int64_t bytes) = 0;
  virtual void Free(void* data) = 0;
  // Allocates host memory that kernels of PrepareHostCopy can access, zeroed:
  // for variables of the section [offload] of a layout. CopyToDevice and
  // CopyToHost also copy to and from such memory. By default the device's own
  // memory, for devices that compute in host memory.
  virtual absl::StatusOr<void*> AllocateHost(int64_t bytes) {
    return Allocate(bytes);
  }
  virtual void FreeHost(void* data) { Free(data); }
  virtual absl::Status CopyToDevice(void* to, const void* from,
                                    int64_t bytes) = 0;
  virtual absl::Status CopyToHost(void* to, const void* from,
                                  int64_t bytes) = 0;

  // Prepares one instruction. The executor itself handles collectives other
  // than all_slice, copies to and from the host, and input, read_variable,
  // write_variable and output; all others come here. kUnimplemented if the
  // device has no kernel for it.
  virtual absl::StatusOr<std::unique_ptr<Kernel>> Prepare(
      const Binding& binding) = 0;

  virtual std::unique_ptr<Kernel> PrepareCopy(void* to, const void* from,
                                              const BlockCopy& copy) = 0;

  // Copies `bytes` bytes between device memory and memory of AllocateHost.
  virtual std::unique_ptr<Kernel> PrepareHostCopy(void* to, const void* from,
                                                  int64_t bytes) {
    BlockCopy copy;
    copy.inner = bytes;
    return PrepareCopy(to, from, copy);
  }

  // Which instructions attention and attention_gradient Prepare accepts.
  // Programs for this device are lowered with those (LowerOptions::attention).
  virtual AttentionSupport attention() const { return AttentionSupport::kNone; }

  // What this device runs as one kernel. Programs for this device are lowered
  // with it (LowerOptions::fusion); the executor calls PrepareGroup for each of
  // their groups and runs its kernel at the position of the first member.
  virtual FusionCapabilities fusion() const { return {}; }

  // Prepares one fused kernel for a group. `members` are its members in order;
  // values that only members read have no memory. Returns null if the device
  // has no such kernel after all; the executor then prepares the members one by
  // one, if their values have memory.
  virtual absl::StatusOr<std::unique_ptr<Kernel>> PrepareGroup(
      const FusedGroup& /*group*/, absl::Span<const Binding> /*members*/) {
    return nullptr;
  }

  // Creates the communicator for this device's memory. Null if the device uses
  // host memory: `host` is then used directly. Otherwise the result uses `host`
  // for control traffic, and `host` and the device must outlive it. Collective.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      Communicator& host);

  // Kernels may run asynchronously to the host. BeginStep is called before the
  // first kernel of a step and passes the seed and the step number; Finish
  // waits for all kernels and merges the errors they reported into `context`.
  virtual absl::Status BeginStep(const StepContext& /*context*/) {
    return absl::OkStatus();
  }
  virtual absl::Status Finish(StepContext& /*context*/) {
    return absl::OkStatus();
  }

  // Creates the runner for one collective marked asynchronous. The executor
  // waits for it before the end of each segment of RunOrReplay. Null if the
  // device does not support it: the collective then runs synchronously.
  virtual std::unique_ptr<AsyncRunner> PrepareAsyncRunner() { return nullptr; }

  // Mark the start and end of an instruction for profilers. `name` must stay
  // valid as long as the kernels.
  virtual void EnterRange(const char* /*name*/) {}
  virtual void LeaveRange() {}

  // True if RunOrReplay may record a segment. The executor then puts as much of
  // a step as possible into one segment and does not access host memory within
  // it.
  virtual bool replays() const { return false; }

  // Runs one segment of a step. `work` enqueues the same commands on every call
  // with the same `replay`, which is null on the first call. A device that can
  // record commands stores them in `replay` and need not call `work` again.
  // Collective if `work` is.
  virtual absl::Status RunOrReplay(const std::function<absl::Status()>& work,
                                   std::unique_ptr<Replay>& /*replay*/) {
    return work();
  }
};

// The resources that a device may use.
//
//   MTF_ASSIGN_OR_RETURN(auto device, CreateDevice("cpu", {.num_threads = 4}));
struct DeviceOptions {
  int num_threads = 1;  // per rank
  // Rank of this process among those on its host; selects the accelerator.
  int local_rank = 0;
};

// The devices available on this machine, in the order of registry.cc.
std::vector<std::string> DeviceNames();
// Creates the device called `name`. kInvalidArgument, with the nearest name, if
// this build has no such device; otherwise the reason why this machine cannot
// provide it.
absl::StatusOr<std::unique_ptr<Device>> CreateDevice(
    absl::string_view name, const DeviceOptions& options);

}  // namespace mtf

#endif  // BACKENDS_BACKEND_H_
