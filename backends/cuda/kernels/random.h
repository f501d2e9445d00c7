// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_KERNELS_RANDOM_H_
#define BACKENDS_CUDA_KERNELS_RANDOM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "backends/cuda/kernels/step_counters.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// Numbers of mtf/philox.h, the same bits as on every device.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareRandom(Runtime& runtime,
                                                      StepCounters& words,
                                                      const Binding& binding);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_KERNELS_RANDOM_H_
