// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_KERNELS_STEP_STATE_H_
#define BACKENDS_CUDA_KERNELS_STEP_STATE_H_

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

// The state that kernels and the host share during a step, at fixed addresses
// of device memory, so that launches can be recorded: the seed and the step,
// and for each kernel that reads indices the first index out of range.
class StepState {
 public:
  // Two words. Both have the position of the bad index in the upper half; the
  // lower halves are the lower and upper half of the index itself. Each is
  // updated by atomicMin alone, so the smallest position wins in both words,
  // whatever the order of threads. Released on destruction.
  class Slot {
   public:
    ~Slot();
    uint64_t* words() const { return words_; }

   private:
    friend class StepState;
    StepState* owner_ = nullptr;
    int number_ = 0;
    uint64_t* words_ = nullptr;
    int64_t instruction_ = 0;
    Shape shape_;
    std::vector<ShardedDimension> dims_;
  };

  explicit StepState(Runtime& runtime) : runtime_(runtime) {}
  ~StepState();
  StepState(const StepState&) = delete;
  StepState& operator=(const StepState&) = delete;

  // The address of two uint32, the seed and the step.
  absl::StatusOr<const uint32_t*> SeedAndStep();
  // The error slot of the kernel of `instruction`, which reads `indices`.
  absl::StatusOr<std::unique_ptr<Slot>> NewSlot(int64_t instruction,
                                                const BoundValue& indices);

  void BeginStep(const StepContext& context);
  // Waits for the kernels and reports the first index out of range.
  absl::Status Finish(StepContext& context);

 private:
  absl::Status Allocate();

  Runtime& runtime_;
  std::mutex mutex_;
  uint64_t* words_ = nullptr;  // on the device: seed and step, then slots
  std::vector<Slot*> slots_;   // null if free
  std::vector<uint64_t> host_;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_KERNELS_STEP_STATE_H_
