// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_FUSION_ROW_SUMS_H_
#define BACKENDS_CUDA_FUSION_ROW_SUMS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/backend.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// Adds up the stripes' partial results for all of a row group's sums over rows,
// in one kernel. `partial` is float32 [sums, stripes, columns], and each of
// `sums` has the columns. Each thread adds every n-th stripe of a column in
// double, and these sums are added in order; the order depends on the number of
// stripes only.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareRowSums(
    Runtime& runtime, const void* partial, int64_t stripes,
    absl::Span<const BoundValue> sums);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_FUSION_ROW_SUMS_H_
