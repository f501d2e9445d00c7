// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_DRIVER_MATMUL_H_
#define BACKENDS_CUDA_DRIVER_MATMUL_H_

#include <cublasLt.h>

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "backends/cuda/driver/gpu.h"
#include "backends/cuda/matmul/matmul_choices.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

class LtLibrary;

// Matmuls on one GPU by cuBLASLt, with algorithms from MatmulChoices.
class Matmuls {
 public:
  static absl::StatusOr<std::unique_ptr<Matmuls>> Create(Gpu& gpu);
  ~Matmuls();

  // `may_time` is false during a recording.
  absl::StatusOr<std::unique_ptr<PreparedMatmul>> Prepare(
      const MatmulProblem& problem, bool may_time);

  // See MatmulChoices.
  void JoinClique() { choices_->JoinClique(); }
  absl::StatusOr<std::string> Settle(int rank,
                                     const AllGatherTexts& all_gather);

  static constexpr size_t kWorkspaceBytes = 32 << 20;

 private:
  explicit Matmuls(Gpu& gpu);

  Gpu& gpu_;
  cublasLtHandle_t handle_ = nullptr;
  // Shared by the matmuls of the stream. A matmul may be several launches that
  // pass data through it, so launches of other threads must not come in
  // between.
  void* workspace_ = nullptr;
  std::mutex mutex_;
  std::unique_ptr<LtLibrary> library_;
  std::unique_ptr<MatmulChoices> choices_;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DRIVER_MATMUL_H_
