// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_DRIVER_CUDNN_HANDLE_H_
#define BACKENDS_CUDA_DRIVER_CUDNN_HANDLE_H_

#include <cudnn.h>

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/cuda/driver/cudnn_plan.h"
#include "backends/cuda/driver/gpu.h"

namespace mtf::cuda {

// cuDNN on the stream of one GPU. Whoever uses it holds mutex(), because a
// handle must be used by one thread at a time.
class CudnnHandle {
 public:
  explicit CudnnHandle(Gpu& gpu) : gpu_(gpu) {}
  ~CudnnHandle();
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;

  std::mutex& mutex() { return mutex_; }
  // Created on first use: that is slow.
  absl::StatusOr<cudnnHandle_t> Get();

  // Enqueues `plan` with the data of its tensors, by id. Locks the mutex.
  absl::Status Execute(
      const CudnnPlan& plan,
      const std::vector<std::pair<int64_t, const void*>>& tensors,
      void* workspace);

 private:
  Gpu& gpu_;
  std::mutex mutex_;
  cudnnHandle_t handle_ = nullptr;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DRIVER_CUDNN_HANDLE_H_
