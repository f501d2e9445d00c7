// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_FUSION_MATMUL_GROUP_H_
#define BACKENDS_CUDA_FUSION_MATMUL_GROUP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/backend.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/scratch.h"
#include "lowering/fusion/matmul_groups.h"

namespace mtf::cuda {

// One kernel for the members of a group of FindMatmulGroups
// (lowering/fusion/matmul_groups.h) or FindBiasGradients
// (lowering/fusion/bias_gradients.h). Null if the members are not such a group,
// if buffers overlap, or if the library does not support it.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareMatmulGroup(
    Runtime& runtime, Scratch& scratch, absl::Span<const Binding> members);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_FUSION_MATMUL_GROUP_H_
