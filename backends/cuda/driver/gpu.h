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

// What the parts of the CUDA runtime share: the GPU, its streams, and the first
// error of what was enqueued. Safe to use from several threads.
class Gpu {
 public:
  static absl::StatusOr<std::unique_ptr<Gpu>> Open(int ordinal);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  // Makes it the GPU of the calling thread; cheap where it is already.
  void Enter();

  int ordinal() const { return ordinal_; }
  const GpuInfo& info() const { return info_; }
  // Everything that computes is enqueued here; it is what is recorded.
  cudaStream_t stream() const { return stream_; }
  // What the calling thread enqueues on: `stream`, or what is beside it.
  cudaStream_t current_stream() const {
    return is_asynchronous() ? communication_stream_ : stream_;
  }
  // Of the calling thread, between EnterSide and LeaveSide.
  bool is_asynchronous() const;
  // What must happen at once, whatever is being recorded; waited for.
  cudaStream_t setup_stream() const { return setup_stream_; }
  // Collectives, ordered by events behind and before `stream`.
  cudaStream_t communication_stream() const { return communication_stream_; }

  // The communication stream from here on is behind `stream` as it is, and the
  // calling thread enqueues there.
  void EnterSide(cudaEvent_t begin);
  // `end` stands for what it has enqueued there.
  void LeaveSide(cudaEvent_t end);
  // `stream` from here on is behind `end`.
  void WaitForSide(cudaEvent_t end);
  // `stream` from here on is behind all that is beside it.
  void JoinSide();

  // Of at least one byte, aligned to 256 and zeroed.
  absl::StatusOr<void*> Allocate(int64_t bytes);
  void Free(void* data);

  // What the calling thread enqueues is part of `name`, which lives until it is
  // set to another or to null.
  static void SetRange(const char* name);
  // That name, "" where there is none.
  static const char* Range();

  // Keeps an error of work that cannot answer; the first one stays.
  void Keep(const absl::Status& status);
  absl::Status TakeError();
  // Whether there ever was one, taken or not.
  bool has_failed();

 private:
  Gpu() = default;

  int ordinal_ = 0;
  GpuInfo info_;
  cudaStream_t stream_ = nullptr, setup_stream_ = nullptr;
  cudaStream_t communication_stream_ = nullptr;
  cudaEvent_t joined_ = nullptr;
  std::atomic<bool> has_side_{false};  // something may run beside
  std::mutex side_mutex_, mutex_;
  absl::Status error_;
  bool has_failed_ = false;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DRIVER_GPU_H_
