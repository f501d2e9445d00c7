// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/driver/staging.h"

#include <algorithm>
#include <cstring>

#include "backends/cuda/driver/check.h"
#include "mtf/status.h"

namespace mtf::cuda {

Staging::~Staging() {
  gpu_.Enter();
  for (Buffer& buffer : buffers_) {
    if (buffer.done != nullptr) {
      cudaEventSynchronize(buffer.done);
      cudaEventDestroy(buffer.done);
    }
    if (buffer.data != nullptr) cudaFreeHost(buffer.data);
  }
}

absl::Status Staging::Fill() {
  while (static_cast<int>(buffers_.size()) < kBuffers) {
    // Kept even if creating its event fails, so that the destructor frees it.
    Buffer& buffer = buffers_.emplace_back();
    absl::Status status =
        MTF_CUDA(cudaHostAlloc(&buffer.data, kBytes, cudaHostAllocDefault));
    if (status.ok()) {
      status = MTF_CUDA(
          cudaEventCreateWithFlags(&buffer.done, cudaEventDisableTiming));
    }
    if (!status.ok()) {
      if (buffer.data != nullptr) cudaFreeHost(buffer.data);
      buffers_.pop_back();
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status Staging::CopyToDevice(void* to, const void* from, int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  MTF_RETURN_IF_ERROR(Fill());
  for (int64_t at = 0; at < bytes; at += kBytes) {
    Buffer& buffer = buffers_[next_];
    next_ = (next_ + 1) % kBuffers;
    const size_t size = std::min(kBytes, bytes - at);
    // An event that was never recorded counts as complete.
    MTF_RETURN_IF_ERROR(MTF_CUDA(cudaEventSynchronize(buffer.done)));
    std::memcpy(buffer.data, static_cast<const char*>(from) + at, size);
    MTF_RETURN_IF_ERROR(
        MTF_CUDA(cudaMemcpyAsync(static_cast<char*>(to) + at, buffer.data, size,
                                 cudaMemcpyDefault, gpu_.stream())));
    MTF_RETURN_IF_ERROR(MTF_CUDA(cudaEventRecord(buffer.done, gpu_.stream())));
  }
  return absl::OkStatus();
}

}  // namespace mtf::cuda
