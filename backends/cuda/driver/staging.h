// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_DRIVER_STAGING_H_
#define BACKENDS_CUDA_DRIVER_STAGING_H_

#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "backends/cuda/driver/gpu.h"

namespace mtf::cuda {

// Copies from the host that are enqueued and yet leave the host's memory free
// at once: through a ring of pinned pieces, each of which waits until the copy
// that last went through it is done.
class Staging {
 public:
  explicit Staging(Gpu& gpu) : gpu_(gpu) {}
  ~Staging();

  absl::Status CopyToDevice(void* to, const void* from, int64_t bytes);

 private:
  struct Piece {
    void* data = nullptr;
    cudaEvent_t done = nullptr;
  };
  absl::Status Fill();

  static constexpr int kPieces = 4;
  static constexpr int64_t kBytes = 4 << 20;

  Gpu& gpu_;
  std::mutex mutex_;
  std::vector<Piece> pieces_;
  int next_ = 0;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DRIVER_STAGING_H_
