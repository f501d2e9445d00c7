// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_FUSION_MATMUL_GROUP_H_
#define BACKENDS_CUDA_FUSION_MATMUL_GROUP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/backend.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/scratch.h"

namespace mtf::cuda {

// One kernel for a matmul and its epilogue (lowering/passes/fuse_epilogues.h).
// Null if the library does not support it.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareEpilogue(
    Runtime& runtime, Scratch& scratch, const EpilogueGroup& epilogue,
    absl::Span<const Binding> members);

// One kernel for a matmul that also sums an operand
// (lowering/passes/fuse_bias_gradients.h). Null as above.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareBiasGradient(
    Runtime& runtime, Scratch& scratch, const BiasGradientGroup& gradient,
    absl::Span<const Binding> members);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_FUSION_MATMUL_GROUP_H_
