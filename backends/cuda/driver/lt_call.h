// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_DRIVER_LT_CALL_H_
#define BACKENDS_CUDA_DRIVER_LT_CALL_H_

#include <cublasLt.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// A MatmulProblem as a cuBLASLt call. cuBLASLt's matrices are column-major and
// ours are row-major, so it computes z' = y' x': the operands are swapped, n is
// its number of rows, and the transpositions stay as they are.
class LtCall {
 public:
  static absl::StatusOr<std::unique_ptr<LtCall>> Create(
      const MatmulProblem& problem);
  ~LtCall();

  // Algorithms from the heuristics with at most `workspace` bytes, best first.
  absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> Candidates(
      cublasLtHandle_t handle, size_t workspace, int most);
  // Whether this library on this GPU can run `algorithm` for the problem.
  bool Accepts(cublasLtHandle_t handle, size_t workspace,
               const cublasLtMatmulAlgo_t& algorithm);
  absl::Status Run(cublasLtHandle_t handle,
                   const cublasLtMatmulAlgo_t& algorithm,
                   const PreparedMatmul::Buffers& buffers, void* workspace,
                   size_t workspace_bytes, cudaStream_t stream);

 private:
  explicit LtCall(const MatmulProblem& problem) : problem_(problem) {}
  absl::Status Init();
  absl::Status SetPointers(const void* bias, const void* gelu_input);

  MatmulProblem problem_;
  cublasLtMatmulDesc_t call_ = nullptr;
  cublasLtMatrixLayout_t x_ = nullptr, y_ = nullptr, z_ = nullptr;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DRIVER_LT_CALL_H_
