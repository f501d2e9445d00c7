// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_DRIVER_STAGING_H_
#define BACKENDS_CUDA_DRIVER_STAGING_H_

#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "backends/cuda/driver/gpu.h"

namespace mtf::cuda {

// Enqueues copies from host memory that may be reused on return: the data goes
// through a ring of pinned buffers, each of which is reused after its last copy
// has finished.
class Staging {
 public:
  explicit Staging(Gpu& gpu) : gpu_(gpu) {}
  ~Staging();

  absl::Status CopyToDevice(void* to, const void* from, int64_t bytes);

 private:
  struct Buffer {
    void* data = nullptr;
    cudaEvent_t done = nullptr;
  };
  absl::Status Fill();

  static constexpr int kBuffers = 4;
  static constexpr int64_t kBytes = 4 << 20;

  Gpu& gpu_;
  std::mutex mutex_;
  std::vector<Buffer> buffers_;
  int next_ = 0;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DRIVER_STAGING_H_
