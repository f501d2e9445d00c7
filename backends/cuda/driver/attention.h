// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_DRIVER_ATTENTION_H_
#define BACKENDS_CUDA_DRIVER_ATTENTION_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/cuda/driver/cudnn_handle.h"
#include "backends/cuda/driver/gpu.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

class AttentionPlan;

// Whether cuDNN is new enough.
bool HasFusedAttention();

// Attention on one GPU by cuDNN's fused engines, with one plan per problem,
// which layers share.
class Attentions {
 public:
  Attentions(Gpu& gpu, CudnnHandle& cudnn);
  ~Attentions();

  // kUnimplemented if no engine supports the problem.
  absl::StatusOr<std::unique_ptr<PreparedAttention>> Prepare(
      const AttentionProblem& problem);

 private:
  Gpu& gpu_;
  CudnnHandle& cudnn_;
  // By problem; kUnimplemented if no engine supports it.
  std::map<std::string, absl::StatusOr<std::shared_ptr<AttentionPlan>>> plans_;
};

// Whether an engine supports `problem` on the GPU described by `device` in
// cuDNN's format.
absl::Status CheckAttentionGraph(const AttentionProblem& problem,
                                 const std::string& device);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DRIVER_ATTENTION_H_
