// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_DRIVER_CUDNN_GRAPH_H_
#define BACKENDS_CUDA_DRIVER_CUDNN_GRAPH_H_

#include <cudnn.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mtf::cuda {

// An owned descriptor of cuDNN's backend API.
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

// The index of a tensor in its graph; `Id` is the tensor's id in variant packs.
using CudnnTensor = int;

struct CudnnTensorOptions {
  std::vector<int64_t> dims = {1, 1, 1, 1};
  std::vector<int64_t> strides = {1, 1, 1, 1};
  cudnnDataType_t dtype = CUDNN_DATA_FLOAT;
  bool is_virtual = false;  // has no memory
  bool by_value = false;    // read from host memory when the graph runs
};

// The options of a convolution, each number by spatial dimension.
struct CudnnConvolution {
  enum Kind { kForward, kBackwardData, kBackwardFilter };
  Kind kind = kForward;
  std::vector<int64_t> strides, dilations;
  std::vector<int64_t> before, after;  // zeros around the input
};

// A graph of operations that cuDNN runs as one kernel. Keeps the first error,
// which Finish returns, so that a graph is written as a chain of expressions.
class CudnnGraph {
 public:
  CudnnTensor Tensor(const CudnnTensorOptions& options);
  static int64_t Id(CudnnTensor tensor) { return tensor + 1; }

  void Matmul(CudnnTensor x, CudnnTensor y, CudnnTensor z);
  // z = mode(x, y), or mode(x) for unary functions. `axis` is for index
  // functions.
  void Pointwise(cudnnPointwiseMode_t mode, CudnnTensor x, CudnnTensor y,
                 CudnnTensor z, cudnnDataType_t compute = CUDNN_DATA_FLOAT,
                 int64_t axis = -1);
  // z = condition ? x : y
  void Select(CudnnTensor condition, CudnnTensor x, CudnnTensor y,
              CudnnTensor z);
  void Reduce(cudnnReduceTensorOp_t kind, CudnnTensor x, CudnnTensor z);
  void Reshape(CudnnTensor x, CudnnTensor z);
  // Computes the output, or its gradient with respect to the input or filter,
  // whichever `kind` names, from the other two; products of windows are not
  // flipped.
  void Convolution(const CudnnConvolution& options, CudnnTensor input,
                   CudnnTensor filter, CudnnTensor output);
  static constexpr CudnnTensor kNone = -1;

  // Finalizes the graph for `handle`; null if it is for a described GPU.
  absl::Status Finish(cudnnHandle_t handle);
  const CudnnDescriptor& graph() const { return graph_; }

 private:
  template <typename Build>
  void Add(cudnnBackendDescriptorType_t type, const Build& build);
  void Keep(const absl::Status& status);

  std::vector<CudnnDescriptor> tensors_;
  std::vector<CudnnDescriptor> parts_;  // referenced by operations
  std::vector<CudnnDescriptor> operations_;
  CudnnDescriptor graph_;
  absl::Status status_;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DRIVER_CUDNN_GRAPH_H_
