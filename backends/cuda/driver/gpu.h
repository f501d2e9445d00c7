// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_DRIVER_GPU_H_
#define BACKENDS_CUDA_DRIVER_GPU_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// State shared by all components of the CUDA runtime: the GPU, its streams, and
// the first error of enqueued work. Thread-safe.
class Gpu {
 public:
  static absl::StatusOr<std::unique_ptr<Gpu>> Open(int ordinal);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  // Selects this GPU for the calling thread; cheap if it already is selected.
  void Enter();

  int ordinal() const { return ordinal_; }
  const GpuInfo& info() const { return info_; }
  // The stream of all computation, which is the one that is recorded.
  cudaStream_t stream() const { return stream_; }
  // The stream on which the calling thread enqueues.
  cudaStream_t current_stream() const {
    return is_asynchronous() ? communication_stream_ : stream_;
  }
  // Whether the calling thread is between EnterAsync and LeaveAsync.
  bool is_asynchronous() const;
  // For work that must run immediately, even during a recording; the host waits
  // for it.
  cudaStream_t setup_stream() const { return setup_stream_; }
  // For collectives; ordered with respect to `stream` by events.
  cudaStream_t communication_stream() const { return communication_stream_; }

  // The communication stream waits for the current end of `stream`, and the
  // calling thread enqueues on it from now on.
  void EnterAsync(cudaEvent_t begin);
  // Records `end` after the work that the thread has enqueued there.
  void LeaveAsync(cudaEvent_t end);
  // Later work on `stream` waits for `end`.
  void WaitForAsync(cudaEvent_t end);
  // Later work on `stream` waits for all asynchronous work.
  void JoinAsync();

  // Aligned to 256 and zeroed; at least one byte.
  absl::StatusOr<void*> Allocate(int64_t bytes);
  void Free(void* data);
  absl::StatusOr<void*> AllocateHost(int64_t bytes);
  void FreeHost(void* data);

  // Names the instruction whose work the calling thread enqueues. `name` must
  // live until it is replaced by another one or null.
  static void SetRange(const char* name);
  // The current name, or "".
  static const char* Range();

  // Stores the first error of work that cannot return one.
  void Keep(const absl::Status& status);
  absl::Status TakeError();
  // Whether there ever was an error, taken or not.
  bool has_failed();

 private:
  Gpu() = default;

  int ordinal_ = 0;
  GpuInfo info_;
  cudaStream_t stream_ = nullptr, setup_stream_ = nullptr;
  cudaStream_t communication_stream_ = nullptr;
  cudaEvent_t joined_ = nullptr;
  std::atomic<bool> has_async_work_{false};
  std::mutex async_mutex_, mutex_;
  absl::Status error_;
  bool has_failed_ = false;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DRIVER_GPU_H_
