// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_KERNELS_RANDOM_H_
#define BACKENDS_CUDA_KERNELS_RANDOM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "backends/cuda/kernels/step_state.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// Random numbers by mtf/philox.h, the same bits as on every device.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareRandom(Runtime& runtime,
                                                      StepState& step_state,
                                                      const Binding& binding);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_KERNELS_RANDOM_H_
