// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_KERNELS_SCATTER_ADD_H_
#define BACKENDS_CUDA_KERNELS_SCATTER_ADD_H_

#include <memory>

#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "backends/cuda/kernels/step_counters.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/scratch.h"

namespace mtf::cuda {

// A table of sums of updates, the same bits in every run: no two threads add to
// one place. First the indices of each row are listed in order,
//
//   count     how many indices mean each row (integers: any order will do)
//   allocate  a stretch of a list for each row
//   fill      the stretches, in any order
//   order     each stretch by counting what comes before each entry
//
// then a thread takes an element of each row through its list, and where a list
// is long several groups of a block take parts of it, which are added in order.
// Float32 sums, integers in int64.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareScatterAdd(
    Runtime& runtime, Scratch& scratch, StepCounters& words,
    const Binding& binding);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_KERNELS_SCATTER_ADD_H_
