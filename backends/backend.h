// SPDX-License-Identifier: Apache-2.0
//
// What a backend is: a Device that prepares the instructions of a program into
// kernels, and a Communicator (communicator.h) that moves data between ranks.
// The executor joins them; it prepares every instruction once, and a step is a
// flat loop over what was prepared.
#ifndef BACKENDS_BACKEND_H_
#define BACKENDS_BACKEND_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "layouts/shard.h"
#include "lowering/program/program.h"

namespace mtf {

// A value on one rank: dense row-major memory, dims[i].extent places along
// dimension i. The places behind the first dims[i].valid are padding and may
// hold anything.
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
  // Places in memory between neighbours along dimension `i`.
  int64_t stride(int i) const {
    int64_t n = 1;
    for (size_t j = i + 1; j < dims.size(); ++j) n *= dims[j].extent;
    return n;
  }
};

// A failure that only data can cause, such as an index out of range. Ranks
// agree on the one with the smallest (instruction, position), so every layout
// reports the same.
struct StepError {
  int64_t instruction = INT64_MAX;
  int64_t position = INT64_MAX;  // global row-major element of the operand
  int64_t index = 0;             // the value found there
  bool ok() const { return instruction == INT64_MAX; }
};

// What a kernel may need to know of the step it runs in.
struct StepContext {
  uint32_t seed = 0;
  uint32_t step = 0;
  StepError error;

  // Keeps the error that comes first.
  void Report(int64_t instruction, int64_t position, int64_t index);
};

// An instruction bound to its buffers.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void Run(StepContext& context) = 0;
};

// An instruction with the buffers of one rank. The memory behind operands and
// results stays in place as long as the kernel.
struct Binding {
  const Program* program = nullptr;
  int index = 0;  // of the instruction
  int64_t rank = 0;
  std::vector<BoundValue> operands;
  std::vector<BoundValue> results;
  // Of a reduce: the local part of its iteration.
  std::vector<ShardedDimension> iteration;

  const Instruction& instruction() const {
    return program->instructions[index];
  }
};

// Any value of the program of a binding, with its buffer.
using BindValue = absl::FunctionRef<BoundValue(int value)>;

// Copies `outer` x `blocks` x `inner` bytes between two orders: element
// [o][b][i] of `from`, read with the strides given, goes to [o][b][i] of `to`.
// Packs and unpacks around collectives.
struct BlockCopy {
  int64_t outer = 1, blocks = 1, inner = 0;  // inner in bytes
  int64_t from_outer = 0, from_block = 0;    // strides in bytes
  int64_t to_outer = 0, to_block = 0;
};

class Communicator;

// A stretch of a step as a device that can replay it has kept it.
class Replay {
 public:
  virtual ~Replay() = default;
};

// Work that a device runs beside what is enqueued behind it.
class AsyncRunner {
 public:
  virtual ~AsyncRunner() = default;
  // Enqueues what `work` enqueues, behind all that was enqueued before. What is
  // run so runs in the order of the calls.
  virtual absl::Status Run(const std::function<absl::Status()>& work) = 0;
  // What is enqueued from now on is behind it.
  virtual void Wait() = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual absl::string_view name() const = 0;

  // Called on the thread that is about to prepare or run kernels, so that the
  // device can size that thread's pool.
  virtual void EnterThread() {}

  // Memory that kernels work on, aligned to 64 bytes and zeroed.
  virtual absl::StatusOr<void*> Allocate(int64_t bytes) = 0;
  virtual void Free(void* data) = 0;
  virtual absl::Status CopyToDevice(void* to, const void* from,
                                    int64_t bytes) = 0;
  virtual absl::Status CopyToHost(void* to, const void* from,
                                  int64_t bytes) = 0;

  // Prepares any instruction that is neither a collective other than all_slice
  // nor one the executor keeps to itself (input, read_variable,
  // write_variable, output). kUnimplemented where the device lacks it.
  virtual absl::StatusOr<std::unique_ptr<Kernel>> Prepare(
      const Binding& binding) = 0;

  virtual std::unique_ptr<Kernel> PrepareCopy(void* to, const void* from,
                                              const BlockCopy& copy) = 0;

  // Where values live: as the program plans it, or as suits groups that leave
  // most of what their members make out of memory.
  virtual BufferPlan Plan(const Program& program) const {
    return program.buffers;
  }

  // Instructions that this device would rather run as one kernel: the places
  // of each group, ascending, with nothing but views between them. The executor
  // prepares a group by PrepareGroup and runs it where its first member stands.
  virtual std::vector<std::vector<int>> Groups(
      const Program& /*program*/) const {
    return {};
  }
  // `bindings` are the members of a group in order, `bind` gives what it reads
  // besides, which is there if the device's plan keeps it. Null where the
  // buffers do not allow it after all (a result over an operand that is still
  // read): the members are then prepared one by one.
  virtual absl::StatusOr<std::unique_ptr<Kernel>> PrepareGroup(
      absl::Span<const Binding> /*bindings*/, BindValue /*bind*/) {
    return nullptr;
  }

  // What moves this device's memory between ranks. Null: `host` does, for the
  // memory is the host's. Otherwise the communicator uses `host` for its
  // control traffic, and does not outlive it or the device. Collective.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      Communicator& host);

  // Kernels may run behind the caller's back. BeginStep comes before the first
  // of a step and hands them the seed and the step; Finish waits for all of
  // them and adds what they found wrong to `context`.
  virtual absl::Status BeginStep(const StepContext& /*context*/) {
    return absl::OkStatus();
  }
  virtual absl::Status Finish(StepContext& /*context*/) {
    return absl::OkStatus();
  }

  // What one collective that is marked so runs beside the rest by; it is waited
  // for before a stretch of RunOrReplay ends. Null: it runs where it stands.
  virtual std::unique_ptr<AsyncRunner> PrepareAsyncRunner() { return nullptr; }

  // Around what an instruction enqueues, for profilers. `name` stays in place
  // as long as the kernels.
  virtual void EnterRange(const char* /*name*/) {}
  virtual void LeaveRange() {}

  // True where RunOrReplay may keep what was enqueued. The executor then puts
  // as much of a step as it can into one stretch, and touches nothing of the
  // host's between its beginning and its end.
  virtual bool replays() const { return false; }

  // Runs `work`, which enqueues the same at every call with this `replay`, null
  // at first. A device that can enqueue all of it at once keeps it there and
  // need not call `work` again. Collective where `work` is.
  virtual absl::Status RunOrReplay(const std::function<absl::Status()>& work,
                                   std::unique_ptr<Replay>& /*replay*/) {
    return work();
  }
};

// How a device may use the machine.
//
//   MTF_ASSIGN_OR_RETURN(auto device, CreateDevice("cpu", {.num_threads = 4}));
struct DeviceOptions {
  int num_threads = 1;  // for one rank
  // Of this process among those on its host: which accelerator it takes.
  int local_rank = 0;
};

// The devices that this machine has, in the order of registry.cc.
std::vector<std::string> DeviceNames();
// kInvalidArgument with the nearest name where there is no such device;
// otherwise what keeps this machine from having it.
absl::StatusOr<std::unique_ptr<Device>> CreateDevice(
    absl::string_view name, const DeviceOptions& options);

}  // namespace mtf

#endif  // BACKENDS_BACKEND_H_
