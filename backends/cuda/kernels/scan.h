// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_KERNELS_SCAN_H_
#define BACKENDS_CUDA_KERNELS_SCAN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// Contiguous lines go through shared memory, one tile at a time, by a warp or a
// block each. Strided lines are split into segments that groups of threads add
// up before they scan them. Floats are added in float32.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareScan(Runtime& runtime,
                                                    const Binding& binding);
absl::StatusOr<std::unique_ptr<Kernel>> PrepareReduceBlocks(
    Runtime& runtime, const Binding& binding);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_KERNELS_SCAN_H_
