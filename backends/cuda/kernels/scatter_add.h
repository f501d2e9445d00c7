// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_KERNELS_SCATTER_ADD_H_
#define BACKENDS_CUDA_KERNELS_SCATTER_ADD_H_

#include <memory>

#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "backends/cuda/kernels/step_state.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/scratch.h"

namespace mtf::cuda {

// A table of sums of updates, deterministic because no two threads add to the
// same element. First the indices that select each row are listed in order:
//
//   count     the number of indices that select each row (by integer atomics)
//   allocate  a segment of a list for each row
//   fill      the segments, in any order
//   order     each segment, by counting the smaller entries for each entry
//
// Then a thread per element adds up the updates of its row's list. Long lists
// are split among the warps of a block, whose sums are added in order. Floats
// are added in float32, integers in int64.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareScatterAdd(
    Runtime& runtime, Scratch& scratch, StepState& state,
    const Binding& binding);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_KERNELS_SCATTER_ADD_H_
