// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_DRIVER_CONVOLUTION_H_
#define BACKENDS_CUDA_DRIVER_CONVOLUTION_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/cuda/driver/cudnn_handle.h"
#include "backends/cuda/driver/gpu.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

class ConvolutionPlan;

// Whether cuDNN is one of the versions whose engines were checked.
bool HasConvolutions();

// Convolutions on one GPU by cuDNN's engines, with one plan per problem, which
// layers share.
class Convolutions {
 public:
  Convolutions(Gpu& gpu, CudnnHandle& handle) : gpu_(gpu), handle_(handle) {}
  ~Convolutions();

  // kUnimplemented if no engine supports the problem.
  absl::StatusOr<std::unique_ptr<PreparedConvolution>> Prepare(
      const ConvolutionProblem& problem);

 private:
  Gpu& gpu_;
  CudnnHandle& handle_;
  // By problem; kUnimplemented if no engine supports it.
  std::map<std::string, absl::StatusOr<std::shared_ptr<ConvolutionPlan>>>
      plans_;
};

// Whether an engine supports `problem` on the GPU described by `device` in
// cuDNN's format.
absl::Status CheckConvolutionGraph(const ConvolutionProblem& problem,
                                   const std::string& device);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DRIVER_CONVOLUTION_H_
