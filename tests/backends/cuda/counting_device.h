// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_BACKENDS_CUDA_COUNTING_DEVICE_H_
#define TESTS_BACKENDS_CUDA_COUNTING_DEVICE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "backends/backend.h"

namespace mtf::cuda {

// Forwards all calls and counts the groups that became kernels.
class CountingDevice : public Device {
 public:
  CountingDevice(std::unique_ptr<Device> device, int* groups)
      : device_(std::move(device)), groups_(groups) {}
  absl::string_view name() const override { return device_->name(); }
  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    return device_->Allocate(bytes);
  }
  void Free(void* data) override { device_->Free(data); }
  absl::Status CopyToDevice(void* to, const void* from, int64_t n) override {
    return device_->CopyToDevice(to, from, n);
  }
  absl::Status CopyToHost(void* to, const void* from, int64_t n) override {
    return device_->CopyToHost(to, from, n);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(
      const Binding& binding) override {
    return device_->Prepare(binding);
  }
  std::unique_ptr<Kernel> PrepareCopy(void* to, const void* from,
                                      const BlockCopy& copy) override {
    return device_->PrepareCopy(to, from, copy);
  }
  BufferPlan Plan(const Program& program) const override {
    return device_->Plan(program);
  }
  std::vector<std::vector<int>> Groups(const Program& program) const override {
    return device_->Groups(program);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareGroup(
      absl::Span<const Binding> bindings, BindValue bind) override {
    auto kernel = device_->PrepareGroup(bindings, bind);
    *groups_ += kernel.ok() && *kernel != nullptr;
    return kernel;
  }
  absl::Status BeginStep(const StepContext& context) override {
    return device_->BeginStep(context);
  }
  absl::Status Finish(StepContext& context) override {
    return device_->Finish(context);
  }

 private:
  std::unique_ptr<Device> device_;
  int* groups_;
};

}  // namespace mtf::cuda

#endif  // TESTS_BACKENDS_CUDA_COUNTING_DEVICE_H_
