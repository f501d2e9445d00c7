// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_DRIVER_ATTENTION_H_
#define BACKENDS_CUDA_DRIVER_ATTENTION_H_

#include <cudnn.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/cuda/driver/gpu.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

class AttentionPlan;

// Attention of one GPU by cuDNN's fused engines; a plan for each problem, which
// layers share.
class Attentions {
 public:
  explicit Attentions(Gpu& gpu);
  ~Attentions();

  // kUnimplemented where no engine takes the problem.
  absl::StatusOr<std::unique_ptr<PreparedAttention>> Prepare(
      const AttentionProblem& problem);

 private:
  Gpu& gpu_;
  std::mutex mutex_;
  cudnnHandle_t handle_ = nullptr;  // made on first use: it takes a while
  // By problem; kUnimplemented of what no engine takes.
  std::map<std::string, absl::StatusOr<std::shared_ptr<AttentionPlan>>> plans_;
};

// Whether an engine takes `problem` on the GPU that cuDNN's text `device`
// describes.
absl::Status CheckAttentionGraph(const AttentionProblem& problem,
                                 const std::string& device);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DRIVER_ATTENTION_H_
