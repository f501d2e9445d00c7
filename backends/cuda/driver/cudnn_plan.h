// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_DRIVER_CUDNN_PLAN_H_
#define BACKENDS_CUDA_DRIVER_CUDNN_PLAN_H_

#include <cudnn.h>

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/cuda/driver/cudnn_graph.h"

namespace mtf::cuda {

// An execution plan of a graph.
struct CudnnPlan {
  CudnnDescriptor plan;
  int64_t workspace_bytes = 0;
};

// Which engines may run a graph.
struct CudnnEngineLimits {
  bool reproducible = false;  // the same bits in every run
  // No transforms (FFT, Winograd), whose errors are relative to the largest
  // element of a tile, and no narrower floats for operands or sums.
  bool exact = false;
  // Whether tensor cores may multiply, which round float32 operands to TF32.
  bool tensor_cores = true;
  int64_t workspace_bytes = std::numeric_limits<int64_t>::max();  // at most
};

// The first engine of cuDNN's heuristics that supports the graph within
// `limits`. Plans for `handle` or, if that is null, for the GPU of `device`.
// kUnimplemented if none does; otherwise the first error of cuDNN.
absl::StatusOr<CudnnPlan> PlanCudnnGraph(const CudnnGraph& graph,
                                         cudnnHandle_t handle,
                                         const CudnnDescriptor& device,
                                         const CudnnEngineLimits& limits);

// Whether a fused engine supports the graph on the GPU of `device`. Also OK if
// only a driver is missing to run it here.
absl::Status CheckCudnnGraph(const CudnnGraph& graph,
                             const CudnnDescriptor& device);

// Parses a GPU's description in cuDNN's own format.
absl::StatusOr<CudnnDescriptor> DescribeDevice(const std::string& text);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DRIVER_CUDNN_PLAN_H_
