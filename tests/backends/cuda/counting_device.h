// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_BACKENDS_CUDA_COUNTING_DEVICE_H_
#define TESTS_BACKENDS_CUDA_COUNTING_DEVICE_H_

#include <memory>
#include <utility>

#include "tests/backends/forwarding_device.h"

namespace mtf::cuda {

// Counts the groups that became kernels.
class CountingDevice : public ::mtf::testing::ForwardingDevice {
 public:
  CountingDevice(std::unique_ptr<Device> device, int* groups)
      : ForwardingDevice(std::move(device)), groups_(groups) {}

  absl::StatusOr<std::unique_ptr<Kernel>> PrepareGroup(
      const FusedGroup& group, absl::Span<const Binding> members) override {
    auto kernel = ForwardingDevice::PrepareGroup(group, members);
    *groups_ += kernel.ok() && *kernel != nullptr;
    return kernel;
  }

 private:
  int* groups_;
};

}  // namespace mtf::cuda

#endif  // TESTS_BACKENDS_CUDA_COUNTING_DEVICE_H_
