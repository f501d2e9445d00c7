// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_KERNELS_DYNAMIC_SLICE_H_
#define BACKENDS_CUDA_KERNELS_DYNAMIC_SLICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "backends/cuda/kernels/step_state.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// Copies the index. Records the first element that is out of range and writes 0
// for it, as for padding.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareCheckIndex(
    Runtime& runtime, StepState& state, const Binding& binding);

// Writes zeros for rows in other ranks' shards and for padding.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareDynamicSlice(
    Runtime& runtime, const Binding& binding);

// Writes the rows in this rank's shard. Copies the other rows first, unless the
// result is in the memory of the value.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareUpdateSlice(
    Runtime& runtime, const Binding& binding);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_KERNELS_DYNAMIC_SLICE_H_
