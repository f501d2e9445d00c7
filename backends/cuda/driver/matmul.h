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

// Matmuls of one GPU by cuBLASLt, with the algorithms of MatmulChoices.
class Matmuls {
 public:
  static absl::StatusOr<std::unique_ptr<Matmuls>> Create(Gpu& gpu);
  ~Matmuls();

  // `may_time`: false while something is recorded.
  absl::StatusOr<std::unique_ptr<PreparedMatmul>> Prepare(
      const MatmulProblem& problem, bool may_time);

  // As MatmulChoices has them.
  void JoinClique() { choices_->JoinClique(); }
  absl::StatusOr<std::string> Settle(int rank, const ExchangeTexts& exchange);

  static constexpr size_t kWorkspaceBytes = 32 << 20;

 private:
  explicit Matmuls(Gpu& gpu);

  Gpu& gpu_;
  cublasLtHandle_t handle_ = nullptr;
  // Of the stream: its matmuls share it. A matmul may be several launches that
  // leave things for each other there, so no other thread's comes between.
  void* workspace_ = nullptr;
  std::mutex mutex_;
  std::unique_ptr<LtLibrary> library_;
  std::unique_ptr<MatmulChoices> choices_;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DRIVER_MATMUL_H_
