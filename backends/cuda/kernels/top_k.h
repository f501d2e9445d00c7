// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_KERNELS_TOP_K_H_
#define BACKENDS_CUDA_KERNELS_TOP_K_H_

#include <memory>

#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/scratch.h"

namespace mtf::cuda {

// Few are found one after the other, each the greatest below the one before, by
// a thread, a warp or a block for each line. Many are those from the k-th on,
// whose digits a block finds by counting, and then sorts.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareTopK(Runtime& runtime,
                                                    Scratch& scratch,
                                                    const Binding& binding);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_KERNELS_TOP_K_H_
