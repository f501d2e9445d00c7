// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/driver/cudnn_graph.h"

#include <utility>

#include "backends/cuda/driver/check.h"
#include "mtf/status.h"

namespace mtf::cuda {

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) cudnnBackendDestroyDescriptor(descriptor_);
}

CudnnDescriptor::CudnnDescriptor(CudnnDescriptor&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, nullptr)) {}

CudnnDescriptor& CudnnDescriptor::operator=(CudnnDescriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

absl::StatusOr<CudnnDescriptor> CudnnDescriptor::Create(
    cudnnBackendDescriptorType_t type) {
  CudnnDescriptor made;
  MTF_RETURN_IF_ERROR(
      MTF_CUDNN(cudnnBackendCreateDescriptor(type, &made.descriptor_)));
  return made;
}

absl::Status CudnnDescriptor::Set(cudnnBackendAttributeName_t name,
                                  cudnnBackendAttributeType_t type,
                                  int64_t count, const void* values) {
  return MTF_CUDNN(
      cudnnBackendSetAttribute(descriptor_, name, type, count, values));
}

absl::Status CudnnDescriptor::SetDescriptor(cudnnBackendAttributeName_t name,
                                            const CudnnDescriptor& other) {
  cudnnBackendDescriptor_t descriptor = other.get();
  return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &descriptor);
}

absl::Status CudnnDescriptor::Finalize() {
  return MTF_CUDNN(cudnnBackendFinalize(descriptor_));
}

void CudnnGraph::Keep(const absl::Status& status) { status_.Update(status); }

CudnnTensor CudnnGraph::Tensor(const CudnnTensorOptions& options) {
  const CudnnTensor index = static_cast<CudnnTensor>(tensors_.size());
  tensors_.emplace_back();
  const auto make = [&]() -> absl::Status {
    MTF_ASSIGN_OR_RETURN(
        CudnnDescriptor tensor,
        CudnnDescriptor::Create(CUDNN_BACKEND_TENSOR_DESCRIPTOR));
    MTF_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE,
                                   CUDNN_TYPE_DATA_TYPE, 1, &options.dtype));
    const auto rank = static_cast<int64_t>(options.dims.size());
    MTF_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS,
                                   CUDNN_TYPE_INT64, rank,
                                   options.dims.data()));
    MTF_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64,
                                   rank, options.strides.data()));
    const int64_t id = Id(index), alignment = 16;
    MTF_RETURN_IF_ERROR(
        tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id));
    MTF_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT,
                                   CUDNN_TYPE_INT64, 1, &alignment));
    const bool yes = true;
    if (options.is_virtual) {
      MTF_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL,
                                     CUDNN_TYPE_BOOLEAN, 1, &yes));
    }
    if (options.by_value) {
      MTF_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_IS_BY_VALUE,
                                     CUDNN_TYPE_BOOLEAN, 1, &yes));
    }
    MTF_RETURN_IF_ERROR(tensor.Finalize());
    tensors_[index] = std::move(tensor);
    return absl::OkStatus();
  };
  if (status_.ok()) Keep(make());
  return index;
}

// Creates an operation, fills it in with `build`, and keeps it.
template <typename Build>
void CudnnGraph::Add(cudnnBackendDescriptorType_t type, const Build& build) {
  if (!status_.ok()) return;
  absl::StatusOr<CudnnDescriptor> operation = CudnnDescriptor::Create(type);
  Keep(operation.status());
  if (status_.ok()) Keep(build(*operation));
  if (status_.ok()) Keep(operation->Finalize());
  if (status_.ok()) operations_.push_back(*std::move(operation));
}

void CudnnGraph::Matmul(CudnnTensor x, CudnnTensor y, CudnnTensor z) {
  Add(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
      [&](CudnnDescriptor& operation) -> absl::Status {
        MTF_ASSIGN_OR_RETURN(
            CudnnDescriptor how,
            CudnnDescriptor::Create(CUDNN_BACKEND_MATMUL_DESCRIPTOR));
        const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
        MTF_RETURN_IF_ERROR(how.Set(CUDNN_ATTR_MATMUL_COMP_TYPE,
                                    CUDNN_TYPE_DATA_TYPE, 1, &compute));
        MTF_RETURN_IF_ERROR(how.Finalize());
        MTF_RETURN_IF_ERROR(operation.SetDescriptor(
            CUDNN_ATTR_OPERATION_MATMUL_ADESC, tensors_[x]));
        MTF_RETURN_IF_ERROR(operation.SetDescriptor(
            CUDNN_ATTR_OPERATION_MATMUL_BDESC, tensors_[y]));
        MTF_RETURN_IF_ERROR(operation.SetDescriptor(
            CUDNN_ATTR_OPERATION_MATMUL_CDESC, tensors_[z]));
        MTF_RETURN_IF_ERROR(
            operation.SetDescriptor(CUDNN_ATTR_OPERATION_MATMUL_DESC, how));
        parts_.push_back(std::move(how));
        return absl::OkStatus();
      });
}

void CudnnGraph::Pointwise(cudnnPointwiseMode_t mode, CudnnTensor x,
                           CudnnTensor y, CudnnTensor z,
                           cudnnDataType_t compute, int64_t axis) {
  Add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
      [&](CudnnDescriptor& operation) -> absl::Status {
        MTF_ASSIGN_OR_RETURN(
            CudnnDescriptor how,
            CudnnDescriptor::Create(CUDNN_BACKEND_POINTWISE_DESCRIPTOR));
        MTF_RETURN_IF_ERROR(how.Set(CUDNN_ATTR_POINTWISE_MODE,
                                    CUDNN_TYPE_POINTWISE_MODE, 1, &mode));
        MTF_RETURN_IF_ERROR(how.Set(CUDNN_ATTR_POINTWISE_MATH_PREC,
                                    CUDNN_TYPE_DATA_TYPE, 1, &compute));
        if (axis >= 0) {
          MTF_RETURN_IF_ERROR(
              how.Set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis));
        }
        MTF_RETURN_IF_ERROR(how.Finalize());
        MTF_RETURN_IF_ERROR(operation.SetDescriptor(
            CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how));
        MTF_RETURN_IF_ERROR(operation.SetDescriptor(
            CUDNN_ATTR_OPERATION_POINTWISE_XDESC, tensors_[x]));
        if (y != kNone) {
          MTF_RETURN_IF_ERROR(operation.SetDescriptor(
              CUDNN_ATTR_OPERATION_POINTWISE_BDESC, tensors_[y]));
        }
        MTF_RETURN_IF_ERROR(operation.SetDescriptor(
            CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensors_[z]));
        parts_.push_back(std::move(how));
        return absl::OkStatus();
      });
}

void CudnnGraph::Select(CudnnTensor condition, CudnnTensor x, CudnnTensor y,
                        CudnnTensor z) {
  Add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
      [&](CudnnDescriptor& operation) -> absl::Status {
        MTF_ASSIGN_OR_RETURN(
            CudnnDescriptor how,
            CudnnDescriptor::Create(CUDNN_BACKEND_POINTWISE_DESCRIPTOR));
        const cudnnPointwiseMode_t mode = CUDNN_POINTWISE_BINARY_SELECT;
        const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
        MTF_RETURN_IF_ERROR(how.Set(CUDNN_ATTR_POINTWISE_MODE,
                                    CUDNN_TYPE_POINTWISE_MODE, 1, &mode));
        MTF_RETURN_IF_ERROR(how.Set(CUDNN_ATTR_POINTWISE_MATH_PREC,
                                    CUDNN_TYPE_DATA_TYPE, 1, &compute));
        MTF_RETURN_IF_ERROR(how.Finalize());
        MTF_RETURN_IF_ERROR(operation.SetDescriptor(
            CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how));
        MTF_RETURN_IF_ERROR(operation.SetDescriptor(
            CUDNN_ATTR_OPERATION_POINTWISE_XDESC, tensors_[x]));
        MTF_RETURN_IF_ERROR(operation.SetDescriptor(
            CUDNN_ATTR_OPERATION_POINTWISE_BDESC, tensors_[y]));
        MTF_RETURN_IF_ERROR(operation.SetDescriptor(
            CUDNN_ATTR_OPERATION_POINTWISE_TDESC, tensors_[condition]));
        MTF_RETURN_IF_ERROR(operation.SetDescriptor(
            CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensors_[z]));
        parts_.push_back(std::move(how));
        return absl::OkStatus();
      });
}

void CudnnGraph::Reduce(cudnnReduceTensorOp_t kind, CudnnTensor x,
                        CudnnTensor z) {
  Add(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
      [&](CudnnDescriptor& operation) -> absl::Status {
        MTF_ASSIGN_OR_RETURN(
            CudnnDescriptor how,
            CudnnDescriptor::Create(CUDNN_BACKEND_REDUCTION_DESCRIPTOR));
        const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
        MTF_RETURN_IF_ERROR(how.Set(CUDNN_ATTR_REDUCTION_COMP_TYPE,
                                    CUDNN_TYPE_DATA_TYPE, 1, &compute));
        MTF_RETURN_IF_ERROR(how.Set(CUDNN_ATTR_REDUCTION_OPERATOR,
                                    CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
                                    &kind));
        MTF_RETURN_IF_ERROR(how.Finalize());
        MTF_RETURN_IF_ERROR(
            operation.SetDescriptor(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how));
        MTF_RETURN_IF_ERROR(operation.SetDescriptor(
            CUDNN_ATTR_OPERATION_REDUCTION_XDESC, tensors_[x]));
        MTF_RETURN_IF_ERROR(operation.SetDescriptor(
            CUDNN_ATTR_OPERATION_REDUCTION_YDESC, tensors_[z]));
        parts_.push_back(std::move(how));
        return absl::OkStatus();
      });
}

void CudnnGraph::Reshape(CudnnTensor x, CudnnTensor z) {
  Add(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
      [&](CudnnDescriptor& operation) -> absl::Status {
        MTF_RETURN_IF_ERROR(operation.SetDescriptor(
            CUDNN_ATTR_OPERATION_RESHAPE_XDESC, tensors_[x]));
        return operation.SetDescriptor(CUDNN_ATTR_OPERATION_RESHAPE_YDESC,
                                       tensors_[z]);
      });
}

namespace {

// The attributes of the three operations of a convolution.
struct ConvolutionNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t input, filter, output, how, alpha, beta;
};
constexpr ConvolutionNames kConvolutionNames[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};

absl::StatusOr<CudnnDescriptor> DescribeWindows(
    const CudnnConvolution& options) {
  MTF_ASSIGN_OR_RETURN(
      CudnnDescriptor how,
      CudnnDescriptor::Create(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR));
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  MTF_RETURN_IF_ERROR(how.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE,
                              CUDNN_TYPE_DATA_TYPE, 1, &compute));
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  MTF_RETURN_IF_ERROR(how.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE,
                              CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode));
  const auto count = static_cast<int64_t>(options.strides.size());
  MTF_RETURN_IF_ERROR(how.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS,
                              CUDNN_TYPE_INT64, 1, &count));
  const std::pair<cudnnBackendAttributeName_t, const std::vector<int64_t>*>
      numbers[] = {{CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, &options.before},
                   {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, &options.after},
                   {CUDNN_ATTR_CONVOLUTION_DILATIONS, &options.dilations},
                   {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &options.strides}};
  for (const auto& [name, values] : numbers) {
    MTF_RETURN_IF_ERROR(how.Set(name, CUDNN_TYPE_INT64, count, values->data()));
  }
  MTF_RETURN_IF_ERROR(how.Finalize());
  return how;
}

}  // namespace

void CudnnGraph::Convolution(const CudnnConvolution& options, CudnnTensor input,
                             CudnnTensor filter, CudnnTensor output) {
  const ConvolutionNames& names = kConvolutionNames[options.kind];
  Add(names.type, [&](CudnnDescriptor& operation) -> absl::Status {
    MTF_ASSIGN_OR_RETURN(CudnnDescriptor how, DescribeWindows(options));
    MTF_RETURN_IF_ERROR(operation.SetDescriptor(names.how, how));
    MTF_RETURN_IF_ERROR(operation.SetDescriptor(names.input, tensors_[input]));
    MTF_RETURN_IF_ERROR(
        operation.SetDescriptor(names.filter, tensors_[filter]));
    MTF_RETURN_IF_ERROR(
        operation.SetDescriptor(names.output, tensors_[output]));
    const float alpha = 1, beta = 0;
    MTF_RETURN_IF_ERROR(
        operation.Set(names.alpha, CUDNN_TYPE_FLOAT, 1, &alpha));
    MTF_RETURN_IF_ERROR(operation.Set(names.beta, CUDNN_TYPE_FLOAT, 1, &beta));
    parts_.push_back(std::move(how));
    return absl::OkStatus();
  });
}

absl::Status CudnnGraph::Finish(cudnnHandle_t handle) {
  MTF_RETURN_IF_ERROR(status_);
  MTF_ASSIGN_OR_RETURN(
      graph_, CudnnDescriptor::Create(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const CudnnDescriptor& operation : operations_) {
    operations.push_back(operation.get());
  }
  MTF_RETURN_IF_ERROR(
      graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                 static_cast<int64_t>(operations.size()), operations.data()));
  if (handle != nullptr) {
    MTF_RETURN_IF_ERROR(graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE,
                                   CUDNN_TYPE_HANDLE, 1, &handle));
  }
  return graph_.Finalize();
}

}  // namespace mtf::cuda
