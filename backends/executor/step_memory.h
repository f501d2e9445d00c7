// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_EXECUTOR_STEP_MEMORY_H_
#define BACKENDS_EXECUTOR_STEP_MEMORY_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "backends/backend.h"

namespace mtf {

// The memory of one rank that programs need only while they run: the arena and
// the staging buffers of collectives. Programs that never run at the same time
// share one, which is as large as the largest of them.
class StepMemory {
 public:
  enum Use {
    kArena,
    // See StagingBytes; asynchronous collectives overlap with others.
    kStagingBefore,
    kStagingAfter,
    kAsyncStagingBefore,
    kAsyncStagingAfter,
  };

  // `device` must outlive the memory.
  explicit StepMemory(Device& device) : device_(device) {}
  ~StepMemory() { Release(); }
  StepMemory(const StepMemory&) = delete;
  StepMemory& operator=(const StepMemory&) = delete;

  // A buffer of at least `bytes`. If that for this use is smaller, it is freed
  // and a larger one allocated: executors created before must not run again.
  absl::StatusOr<void*> Reserve(Use use, int64_t bytes);
  // How often a buffer that executors may hold has been freed.
  int64_t replacements() const { return replacements_; }
  // The bytes of all buffers.
  int64_t bytes() const;
  // Frees all buffers.
  void Release();

 private:
  struct Buffer {
    void* data = nullptr;
    int64_t bytes = 0;
  };
  Device& device_;
  std::array<Buffer, kAsyncStagingAfter + 1> buffers_;
  int64_t replacements_ = 0;
};

}  // namespace mtf

#endif  // BACKENDS_EXECUTOR_STEP_MEMORY_H_
