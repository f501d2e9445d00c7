// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_MATMUL_CONVOLUTION_H_
#define BACKENDS_CUDA_MATMUL_CONVOLUTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/backend.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/scratch.h"

namespace mtf::cuda {

// Prepares the members of a ConvolutionGroup as one call of the library. The
// library's workspace and, unless its order in memory is that of the library,
// a copy of the filter are in memory of `scratch`, which must outlive the
// kernel.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareConvolution(
    Runtime& runtime, Scratch& scratch, const FusedGroup& group,
    absl::Span<const Binding> members);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_MATMUL_CONVOLUTION_H_
