// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_KERNELS_TOP_K_H_
#define BACKENDS_CUDA_KERNELS_TOP_K_H_

#include <memory>

#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/scratch.h"

namespace mtf::cuda {

// Small k: finds the elements one after the other, each the greatest below the
// one before, with a thread, a warp or a block per line. Large k: a block finds
// the k-th key by a radix selection, collects the keys from it on, and sorts
// them.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareTopK(Runtime& runtime,
                                                    Scratch& scratch,
                                                    const Binding& binding);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_KERNELS_TOP_K_H_
