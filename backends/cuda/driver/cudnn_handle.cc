// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/driver/cudnn_handle.h"

#include "backends/cuda/driver/check.h"
#include "mtf/status.h"

namespace mtf::cuda {

CudnnHandle::~CudnnHandle() {
  gpu_.Enter();
  if (handle_ != nullptr) cudnnDestroy(handle_);
}

absl::StatusOr<cudnnHandle_t> CudnnHandle::Get() {
  if (handle_ != nullptr) return handle_;
  cudnnHandle_t handle = nullptr;
  MTF_RETURN_IF_ERROR(MTF_CUDNN(cudnnCreate(&handle)));
  const absl::Status set = MTF_CUDNN(cudnnSetStream(handle, gpu_.stream()));
  if (!set.ok()) {
    cudnnDestroy(handle);
    return set;
  }
  handle_ = handle;
  return handle_;
}

absl::Status CudnnHandle::Execute(
    const CudnnPlan& plan,
    const std::vector<std::pair<int64_t, const void*>>& tensors,
    void* workspace) {
  std::vector<int64_t> ids;
  std::vector<void*> data;
  for (const auto& [id, address] : tensors) {
    ids.push_back(id);
    data.push_back(const_cast<void*>(address));
  }
  MTF_ASSIGN_OR_RETURN(
      CudnnDescriptor pack,
      CudnnDescriptor::Create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
  const int64_t count = static_cast<int64_t>(ids.size());
  MTF_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                               CUDNN_TYPE_INT64, count, ids.data()));
  MTF_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                               CUDNN_TYPE_VOID_PTR, count, data.data()));
  MTF_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                               CUDNN_TYPE_VOID_PTR, 1, &workspace));
  MTF_RETURN_IF_ERROR(pack.Finalize());
  std::lock_guard<std::mutex> lock(mutex_);
  MTF_ASSIGN_OR_RETURN(cudnnHandle_t handle, Get());
  return MTF_CUDNN(cudnnBackendExecute(handle, plan.plan.get(), pack.get()));
}

}  // namespace mtf::cuda
