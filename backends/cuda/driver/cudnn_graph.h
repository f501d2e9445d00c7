// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_DRIVER_CUDNN_GRAPH_H_
#define BACKENDS_CUDA_DRIVER_CUDNN_GRAPH_H_

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mtf::cuda {

// A descriptor of cuDNN's graphs, destroyed with the object.
class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept;
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept;

  static absl::StatusOr<CudnnDescriptor> Create(
      cudnnBackendDescriptorType_t type);
  absl::Status Set(cudnnBackendAttributeName_t name,
                   cudnnBackendAttributeType_t type, int64_t count,
                   const void* values);
  absl::Status SetDescriptor(cudnnBackendAttributeName_t name,
                             const CudnnDescriptor& other);
  absl::Status Finalize();
  cudnnBackendDescriptor_t get() const { return descriptor_; }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

// A tensor of a graph by its place; what its data is said to lie at by `Id`.
using CudnnTensor = int;

struct CudnnTensorOptions {
  std::array<int64_t, 4> dims = {1, 1, 1, 1};
  std::array<int64_t, 4> strides = {1, 1, 1, 1};
  cudnnDataType_t dtype = CUDNN_DATA_FLOAT;
  bool is_virtual = false;  // never in memory
  bool by_value = false;    // read from the host when the graph is run
};

// A graph of operations that cuDNN runs as one kernel. The first error is kept
// and returned by Finish, so that a graph is written as a chain of expressions.
class CudnnGraph {
 public:
  CudnnTensor Tensor(const CudnnTensorOptions& options);
  static int64_t Id(CudnnTensor tensor) { return tensor + 1; }

  void Matmul(CudnnTensor x, CudnnTensor y, CudnnTensor z);
  // z = x mode y; without y for functions of one operand; `axis` of an index.
  void Pointwise(cudnnPointwiseMode_t mode, CudnnTensor x, CudnnTensor y,
                 CudnnTensor z, cudnnDataType_t compute = CUDNN_DATA_FLOAT,
                 int64_t axis = -1);
  // z = condition ? x : y
  void Select(CudnnTensor condition, CudnnTensor x, CudnnTensor y,
              CudnnTensor z);
  void Reduce(cudnnReduceTensorOp_t kind, CudnnTensor x, CudnnTensor z);
  void Reshape(CudnnTensor x, CudnnTensor z);
  static constexpr CudnnTensor kNone = -1;

  // For `handle`, or, where that is null, for the GPU that `device` describes.
  absl::Status Finish(cudnnHandle_t handle);
  const CudnnDescriptor& graph() const { return graph_; }

 private:
  template <typename Build>
  void Add(cudnnBackendDescriptorType_t type, const Build& build);
  void Keep(const absl::Status& status);

  std::vector<CudnnDescriptor> tensors_;
  std::vector<CudnnDescriptor> parts_;  // what operations refer to
  std::vector<CudnnDescriptor> operations_;
  CudnnDescriptor graph_;
  absl::Status status_;
};

// What runs a graph.
struct CudnnPlan {
  CudnnDescriptor plan;
  int64_t workspace_bytes = 0;
};

// The first engine of cuDNN's heuristics that takes the graph; with
// `reproducible`, of those that give the same bits at every run. For `handle`,
// or for the GPU of `device` where that is null. kUnimplemented where there is
// none.
absl::StatusOr<CudnnPlan> PlanCudnnGraph(const CudnnGraph& graph,
                                         cudnnHandle_t handle,
                                         const CudnnDescriptor& device,
                                         bool reproducible);

// Whether a fused engine knows the graph on the GPU of `device`, wherever this
// is asked: where nothing but a driver is missing to run it, it is OK too.
absl::Status CheckCudnnGraph(const CudnnGraph& graph,
                             const CudnnDescriptor& device);

// The GPU that cuDNN's own text describes.
absl::StatusOr<CudnnDescriptor> DescribeDevice(const std::string& text);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DRIVER_CUDNN_GRAPH_H_
