// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/driver/staging.h"

#include <algorithm>
#include <cstring>

#include "backends/cuda/driver/check.h"
#include "mtf/status.h"

namespace mtf::cuda {

Staging::~Staging() {
  gpu_.Enter();
  for (Piece& piece : pieces_) {
    if (piece.done != nullptr) {
      cudaEventSynchronize(piece.done);
      cudaEventDestroy(piece.done);
    }
    if (piece.data != nullptr) cudaFreeHost(piece.data);
  }
}

absl::Status Staging::Fill() {
  while (static_cast<int>(pieces_.size()) < kPieces) {
    // Kept even where its second part fails, so that the end frees the first.
    Piece& piece = pieces_.emplace_back();
    absl::Status status =
        MTF_CUDA(cudaHostAlloc(&piece.data, kBytes, cudaHostAllocDefault));
    if (status.ok()) {
      status = MTF_CUDA(
          cudaEventCreateWithFlags(&piece.done, cudaEventDisableTiming));
    }
    if (!status.ok()) {
      if (piece.data != nullptr) cudaFreeHost(piece.data);
      pieces_.pop_back();
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status Staging::CopyToDevice(void* to, const void* from, int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  MTF_RETURN_IF_ERROR(Fill());
  for (int64_t at = 0; at < bytes; at += kBytes) {
    Piece& piece = pieces_[next_];
    next_ = (next_ + 1) % kPieces;
    const size_t size = std::min(kBytes, bytes - at);
    // An event that was never recorded is done.
    MTF_RETURN_IF_ERROR(MTF_CUDA(cudaEventSynchronize(piece.done)));
    std::memcpy(piece.data, static_cast<const char*>(from) + at, size);
    MTF_RETURN_IF_ERROR(
        MTF_CUDA(cudaMemcpyAsync(static_cast<char*>(to) + at, piece.data, size,
                                 cudaMemcpyHostToDevice, gpu_.stream())));
    MTF_RETURN_IF_ERROR(MTF_CUDA(cudaEventRecord(piece.done, gpu_.stream())));
  }
  return absl::OkStatus();
}

}  // namespace mtf::cuda
