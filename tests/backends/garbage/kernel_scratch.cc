// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/garbage/kernel_scratch.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "backends/cpu/scratch.h"
#include "backends/cuda/device.h"
#include "mtf/status.h"
#include "tests/backends/garbage/forwarding_runtime.h"

namespace mtf::testing {

thread_local std::vector<KernelScratch::Block>* KernelScratch::watching_ =
    nullptr;

// Reports the blocks of cuda::Scratch: while kernels are prepared nothing else
// is that large in tests.
class ScratchRuntime : public cuda::ForwardingRuntime {
 public:
  using ForwardingRuntime::ForwardingRuntime;

  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    MTF_ASSIGN_OR_RETURN(void* const data, ForwardingRuntime::Allocate(bytes));
    if (bytes >= 1 << 20 && KernelScratch::watching_ != nullptr) {
      KernelScratch::watching_->push_back({data, bytes});
    }
    return data;
  }
};

namespace {

// One per name: the virtual devices of a GPU must have the same runtime.
absl::StatusOr<std::shared_ptr<cuda::Runtime>> RuntimeOf(
    const std::string& name) {
  static std::mutex mutex;
  static auto& made =
      *new std::map<std::string, std::shared_ptr<cuda::Runtime>>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<cuda::Runtime>& runtime = made[name];
  if (runtime == nullptr) {
    MTF_ASSIGN_OR_RETURN(
        std::shared_ptr<cuda::Runtime> gpu,
        name == "cuda" ? cuda::OpenGpu(0) : cuda::OpenEmulatedGpu());
    runtime = std::make_shared<ScratchRuntime>(std::move(gpu));
  }
  return runtime;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> CreateDeviceWithVisibleScratch(
    const std::string& name) {
  if (name != "cuda" && name != "cuda_emulated") {
    return CreateDevice(name, {.num_threads = 1});
  }
  MTF_ASSIGN_OR_RETURN(std::shared_ptr<cuda::Runtime> runtime, RuntimeOf(name));
  runtime->EnterThread();
  return cuda::CreateDeviceOver(std::move(runtime), name);
}

absl::Status KernelScratch::Fill(Device& device, Garbage garbage,
                                 int64_t bytes) const {
  const std::vector<char>& bits = SharedGarbage(garbage);
  bytes = std::min(bytes, static_cast<int64_t>(bits.size()));
  for (const Block& block : blocks_) {
    MTF_RETURN_IF_ERROR(device.CopyToDevice(block.data, bits.data(),
                                            std::min(bytes, block.bytes)));
  }
  for (int use = 0; use < cpu::kNumScratchUses; ++use) {
    std::memcpy(cpu::ThreadScratch(static_cast<cpu::ScratchUse>(use), bytes),
                bits.data(), bytes);
  }
  FillStackAndHeap(garbage, std::min<int64_t>(bytes, 64 << 10));
  return absl::OkStatus();
}

}  // namespace mtf::testing
