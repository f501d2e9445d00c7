// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_KERNELS_ATTENTION_H_
#define BACKENDS_CUDA_KERNELS_ATTENTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/scratch.h"

namespace mtf::cuda {

// Prepares an instruction attention or attention_gradient as a fused kernel of
// the library. A mask and a bias become one bias in scratch memory, computed
// before each of the two.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareAttention(
    Runtime& runtime, Scratch& scratch, const Binding& binding);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_KERNELS_ATTENTION_H_
