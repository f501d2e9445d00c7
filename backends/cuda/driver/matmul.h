// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_DRIVER_MATMUL_H_
#define BACKENDS_CUDA_DRIVER_MATMUL_H_

#include <cublasLt.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "backends/cuda/disk_cache.h"
#include "backends/cuda/driver/gpu.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// Matmuls of one GPU by cuBLASLt. Its heuristics are asked once per problem,
// and the best few of what they name are timed; the choice is kept on disk by
// GPU, version of the library and problem.
class Matmuls {
 public:
  static absl::StatusOr<std::unique_ptr<Matmuls>> Create(Gpu& gpu);
  ~Matmuls();

  // `may_time`: false while something is recorded.
  absl::StatusOr<std::unique_ptr<PreparedMatmul>> Prepare(
      const MatmulProblem& problem, bool may_time);

  // Takes the first choice of the heuristics from now on, as every process of a
  // clique must: what several of them compute alike is alike to the last bit
  // only where all take the same algorithm.
  void StopTiming();

  static constexpr size_t kWorkspaceBytes = 32 << 20;

 private:
  explicit Matmuls(Gpu& gpu);

  Gpu& gpu_;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;  // of the stream: its matmuls share it
  DiskCache cache_;
  std::mutex mutex_;
  bool times_ = true;
  std::map<std::string, cublasLtMatmulAlgo_t> chosen_;  // by problem
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DRIVER_MATMUL_H_
