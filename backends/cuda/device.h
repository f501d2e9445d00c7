// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_DEVICE_H_
#define BACKENDS_CUDA_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// A GPU of this machine: generated kernels, cuBLASLt and cuDNN. Errors as for
// OpenGpu (runtime.h).
absl::StatusOr<std::unique_ptr<Device>> CreateDevice(
    const DeviceOptions& options);

// A device over any runtime, called `name`.
std::unique_ptr<Device> CreateDeviceOver(std::shared_ptr<Runtime> runtime,
                                         std::string name);

// Whether a GPU can be opened; determined once.
bool HasGpu();

// The same device over an emulated GPU, for tests on machines without a GPU.
// Slow.
absl::StatusOr<std::unique_ptr<Device>> CreateEmulatedDevice(
    const DeviceOptions& options);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DEVICE_H_
