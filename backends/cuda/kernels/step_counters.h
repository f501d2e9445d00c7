// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_KERNELS_STEP_COUNTERS_H_
#define BACKENDS_CUDA_KERNELS_STEP_COUNTERS_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "backends/cuda/runtime.h"
#include "layouts/shard.h"
#include "mtf/shape.h"

namespace mtf::cuda {

// What kernels and the host tell each other in a step, in a few words of
// device memory that never move, so that launches can be recorded: the seed and
// the step, and for each kernel that reads indices the first bad one.
class StepCounters {
 public:
  // Two words each: the place of the bad index in the upper half of both, its
  // lower and upper half below. Both go down alone (atomicMin), so the first
  // place wins both, whatever the order of threads. Given back when destroyed.
  class Slot {
   public:
    ~Slot();
    uint64_t* words() const { return words_; }

   private:
    friend class StepCounters;
    StepCounters* owner_ = nullptr;
    int number_ = 0;
    uint64_t* words_ = nullptr;
    int64_t instruction_ = 0;
    Shape shape_;
    std::vector<ShardedDimension> dims_;
  };

  explicit StepCounters(Runtime& runtime) : runtime_(runtime) {}
  ~StepCounters();
  StepCounters(const StepCounters&) = delete;
  StepCounters& operator=(const StepCounters&) = delete;

  // Two uint32: the seed and the step.
  absl::StatusOr<const uint32_t*> SeedAndStep();
  // For the kernel of `instruction`, which reads `indices`.
  absl::StatusOr<std::unique_ptr<Slot>> NewSlot(int64_t instruction,
                                                const BoundValue& indices);

  void BeginStep(const StepContext& context);
  // Reports what kernels have found; waits for them.
  absl::Status Finish(StepContext& context);

 private:
  absl::Status Allocate();

  Runtime& runtime_;
  std::mutex mutex_;
  uint64_t* words_ = nullptr;  // on the device: seed and step, then slots
  std::vector<Slot*> slots_;   // null where none
  std::vector<uint64_t> host_;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_KERNELS_STEP_COUNTERS_H_
