// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_DEVICE_H_
#define BACKENDS_CUDA_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// A GPU of this machine: generated kernels, cuBLASLt and cuDNN. The errors of
// OpenGpu (runtime.h).
absl::StatusOr<std::unique_ptr<Device>> CreateDevice(
    const DeviceOptions& options);

// The device over any runtime, under a name of its own.
std::unique_ptr<Device> CreateDeviceOver(std::shared_ptr<Runtime> runtime,
                                         std::string name);

// Whether a GPU can be opened; found out once.
bool HasGpu();

// The same device over a GPU that this machine's cores play: for tests of
// everything above runtime.h where there is no GPU. Slow.
absl::StatusOr<std::unique_ptr<Device>> CreateEmulatedDevice(
    const DeviceOptions& options);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DEVICE_H_
