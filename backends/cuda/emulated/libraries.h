// SPDX-License-Identifier: Apache-2.0
//
// Plain loops in place of cuBLASLt and cuDNN.
#ifndef BACKENDS_CUDA_EMULATED_LIBRARIES_H_
#define BACKENDS_CUDA_EMULATED_LIBRARIES_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// Enqueues work on the stream of the calling thread.
using EnqueueWork = std::function<void(std::function<void()>)>;

absl::StatusOr<std::unique_ptr<PreparedMatmul>> PrepareEmulatedMatmul(
    const MatmulProblem& problem, EnqueueWork enqueue);
absl::StatusOr<std::unique_ptr<PreparedAttention>> PrepareEmulatedAttention(
    const AttentionProblem& problem, EnqueueWork enqueue);
absl::StatusOr<std::unique_ptr<PreparedConvolution>> PrepareEmulatedConvolution(
    const ConvolutionProblem& problem, EnqueueWork enqueue);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_EMULATED_LIBRARIES_H_
