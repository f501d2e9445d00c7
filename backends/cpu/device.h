// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_DEVICE_H_
#define BACKENDS_CPU_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "backends/backend.h"

namespace mtf::cpu {

// Creates the CPU device: oneDNN for matmuls, Highway for elementwise functions
// and reductions, a pool of threads. EnterThread gives the calling thread
// options.num_threads of them (UseThreads, threads.h); kernels run on the
// thread that prepared them.
absl::StatusOr<std::unique_ptr<Device>> CreateDevice(
    const DeviceOptions& options);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_DEVICE_H_
