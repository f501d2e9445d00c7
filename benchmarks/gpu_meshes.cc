// SPDX-License-Identifier: Apache-2.0
//
// Complete training steps: eight virtual devices relative to one, and memory
// relative to the plan.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "backends/communicator.h"
#include "backends/executor/executor.h"
#include "benchmarks/gpu_benchmark.h"
#include "layouts/layout_rules.h"
#include "layouts/mesh.h"
#include "layouts/shard.h"
#include "lowering/lower.h"
#include "mtf/status.h"
#include "tools/models.h"
#include "train/session/session.h"

namespace mtf {
namespace {

GptSizes SizesFor(const GpuBenchmark& settings) {
  GptSizes sizes;
  sizes.dtype = kBFloat16;
  if (settings.tiny) {
    sizes.batch = 8;
    sizes.length = 8;
    sizes.d_model = 16;
    sizes.heads = 8;
    sizes.d_kv = 8;
    sizes.d_ff = 32;
    sizes.vocab = 64;
    return sizes;
  }
  sizes.layers = 6;
  sizes.batch = 64;
  sizes.length = 512;
  sizes.d_model = 1024;
  sizes.heads = 16;
  sizes.d_kv = 64;
  sizes.d_ff = 4096;
  sizes.vocab = 32768;
  return sizes;
}

// GPT-2 124M with so few tokens that launches dominate.
GptSizes LaunchBound(const GpuBenchmark& settings) {
  if (settings.tiny) return SizesFor(settings);
  GptSizes sizes;
  sizes.dtype = kBFloat16;
  sizes.layers = 12;
  sizes.batch = 1;
  sizes.length = 128;
  sizes.d_model = 768;
  sizes.heads = 12;
  sizes.d_kv = 64;
  sizes.d_ff = 3072;
  sizes.vocab = 50304;
  return sizes;
}

absl::StatusOr<Timing> TimeStep(const GpuBenchmark& settings,
                                const GptSizes& sizes, const std::string& mesh,
                                const std::string& layout) {
  MTF_ASSIGN_OR_RETURN(const GptStep step, BuildGpt(sizes));
  train::SessionOptions options;
  options.backend = settings.device;
  MTF_ASSIGN_OR_RETURN(
      const std::unique_ptr<train::Session> session,
      train::Session::Create(*step.graph, mesh, layout, options));
  MTF_RETURN_IF_ERROR(session->Initialize());
  const train::RunRequest request = {.feeds = FeedsOf(sizes),
                                     .fetches = step.targets.fetches,
                                     .updates = step.targets.updates};
  return Measure([&] { return session->Run(request).status(); },
                 [] { return absl::OkStatus(); }, settings.repeats, 0);
}

// Counts allocations and forwards all calls to a device.
class AllocationCountingDevice : public Device {
 public:
  explicit AllocationCountingDevice(std::unique_ptr<Device> device)
      : device_(std::move(device)) {}

  int64_t bytes() const { return bytes_; }

  absl::string_view name() const override { return device_->name(); }
  void EnterThread() override { device_->EnterThread(); }
  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    absl::StatusOr<void*> data = device_->Allocate(bytes);
    if (data.ok()) bytes_ += sizes_[*data] = bytes;
    return data;
  }
  void Free(void* data) override {
    bytes_ -= sizes_[data];
    sizes_.erase(data);
    device_->Free(data);
  }
  absl::Status CopyToDevice(void* to, const void* from,
                            int64_t bytes) override {
    return device_->CopyToDevice(to, from, bytes);
  }
  absl::Status CopyToHost(void* to, const void* from, int64_t bytes) override {
    return device_->CopyToHost(to, from, bytes);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(
      const Binding& binding) override {
    return device_->Prepare(binding);
  }
  std::unique_ptr<Kernel> PrepareCopy(void* to, const void* from,
                                      const BlockCopy& copy) override {
    return device_->PrepareCopy(to, from, copy);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareGroup(
      const FusedGroup& group, absl::Span<const Binding> members) override {
    return device_->PrepareGroup(group, members);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      Communicator& host) override {
    return device_->Connect(host);
  }
  absl::Status BeginStep(const StepContext& context) override {
    return device_->BeginStep(context);
  }
  absl::Status Finish(StepContext& context) override {
    return device_->Finish(context);
  }
  std::unique_ptr<AsyncRunner> PrepareAsyncRunner() override {
    return device_->PrepareAsyncRunner();
  }
  void EnterRange(const char* name) override { device_->EnterRange(name); }
  void LeaveRange() override { device_->LeaveRange(); }
  bool replays() const override { return device_->replays(); }
  absl::Status RunOrReplay(const std::function<absl::Status()>& work,
                           std::unique_ptr<Replay>& replay) override {
    return device_->RunOrReplay(work, replay);
  }

 private:
  std::unique_ptr<Device> device_;
  std::map<void*, int64_t> sizes_;
  int64_t bytes_ = 0;
};

// Variables, the arena and, if the host does not take part in a step, memory
// for the fetches.
int64_t PlannedBytes(const Program& program, const Device& device) {
  int64_t bytes = std::max<int64_t>(program.buffers.arena_bytes, 64);
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode != Opcode::kOutput || !device.replays()) continue;
    bytes += std::max<int64_t>(
        program.values[instruction.operands[0]].local_bytes(), 64);
  }
  for (const ProgramVariable& variable : program.variables) {
    bytes += LocalElements(program.grains, variable.shape, variable.layout) *
             DTypeSize(variable.dtype);
  }
  return bytes;
}

}  // namespace

absl::Status MeasureLaunches(const GpuBenchmark& settings) {
  const GptSizes sizes = LaunchBound(settings);
  MTF_ASSIGN_OR_RETURN(const Timing timing, TimeStep(settings, sizes, "", ""));
  const auto tokens = static_cast<double>(sizes.batch * sizes.length);
  Emit(settings, absl::StrCat("step/", sizes.batch, "x", sizes.length),
       "tokens/s", 1e3 * tokens / timing.milliseconds, timing);
  return absl::OkStatus();
}

absl::Status MeasureMeshes(const GpuBenchmark& settings) {
  MTF_ASSIGN_OR_RETURN(const Timing one,
                       TimeStep(settings, SizesFor(settings), "", ""));
  Emit(settings, "meshes/one", "x", 1, one);
  for (const auto& [mesh, layout] :
       {std::pair<std::string, std::string>{"data:8", "data"},
        {"model:8", "megatron"},
        {"data:2,model:4", "data_model"}}) {
    MTF_ASSIGN_OR_RETURN(const Timing all,
                         TimeStep(settings, SizesFor(settings), mesh, layout));
    // Time relative to one device with all the work.
    Emit(settings, absl::StrCat("meshes/", mesh, "/", layout), "x",
         all.milliseconds / one.milliseconds, all);
  }
  return absl::OkStatus();
}

absl::Status MeasureMemory(const GpuBenchmark& settings) {
  const GptSizes sizes = SizesFor(settings);
  MTF_ASSIGN_OR_RETURN(const GptStep step, BuildGpt(sizes));
  MTF_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse("x:1"));
  MTF_ASSIGN_OR_RETURN(const LayoutRules rules, LayoutRules::Parse("", ""));
  MTF_ASSIGN_OR_RETURN(const LayoutBinding binding,
                       BindLayout(*step.graph, mesh, rules));
  int64_t bytes = 0, planned = 0;
  LocalRanks ranks(mesh);
  MTF_RETURN_IF_ERROR(
      ranks.Run([&](Communicator& communicator) -> absl::Status {
        MTF_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, settings.Open());
        MTF_ASSIGN_OR_RETURN(const Program initialize,
                             Lower(*step.graph, binding, {.initialize = true}));
        MTF_ASSIGN_OR_RETURN(const Program program,
                             Lower(*step.graph, binding, step.targets,
                                   {.attention = device->attention(),
                                    .fusion = device->fusion()}));
        AllocationCountingDevice counting(std::move(device));
        MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> connection,
                             counting.Connect(communicator));
        Communicator& own = connection != nullptr ? *connection : communicator;
        VariableStore variables(counting);
        std::map<std::string, HostTensor> outputs;
        {
          MTF_ASSIGN_OR_RETURN(
              const std::unique_ptr<Executor> first,
              Executor::Create(initialize, counting, own, variables));
          MTF_RETURN_IF_ERROR(first->Run({}, 0, 0, &outputs));
        }
        MTF_ASSIGN_OR_RETURN(
            const std::unique_ptr<Executor> executor,
            Executor::Create(program, counting, own, variables));
        // Runs, records, replays.
        for (uint32_t i = 0; i < 3; ++i) {
          MTF_RETURN_IF_ERROR(executor->Run(FeedsOf(sizes), 0, i, &outputs));
        }
        bytes = counting.bytes();
        planned = PlannedBytes(program, counting);
        return absl::OkStatus();
      }));
  Emit(settings, "memory/step", "x",
       static_cast<double>(bytes) / static_cast<double>(planned), Timing(),
       absl::StrFormat(",\"bytes\":%d,\"planned_bytes\":%d", bytes, planned));
  return absl::OkStatus();
}

}  // namespace mtf
