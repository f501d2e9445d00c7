// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_SCRATCH_H_
#define BACKENDS_CUDA_SCRATCH_H_

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// Memory that kernels only need while they run. Kernels of one stream run one
// after the other, so they share one block of the largest size.
//
//   MTF_ASSIGN_OR_RETURN(void* partial_sums, scratch.Reserve(bytes));
class Scratch {
 public:
  explicit Scratch(Runtime& runtime) : runtime_(runtime) {}
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // At least `bytes`, aligned to 256, at an address that is valid as long as
  // this object, because recordings keep addresses. Called when a kernel is
  // prepared.
  absl::StatusOr<void*> Reserve(int64_t bytes);

 private:
  Runtime& runtime_;
  std::mutex mutex_;
  // Each at least twice as large as the one before it.
  std::vector<std::pair<void*, int64_t>> blocks_;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_SCRATCH_H_
