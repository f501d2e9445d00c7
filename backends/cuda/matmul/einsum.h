// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_MATMUL_EINSUM_H_
#define BACKENDS_CUDA_MATMUL_EINSUM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/scratch.h"
#include "lowering/program/einsum_kind.h"
#include "lowering/program/einsum_plan.h"
#include "mtf/dtype.h"

namespace mtf::cuda {

// Extra work of a matmul before it writes its result z.
struct MatmulFinish {
  MatmulProblem::Epilogue epilogue = MatmulProblem::Epilogue::kNone;
  const void* addend = nullptr;  // added first; layout of z, may be z
  void* bias = nullptr;          // read, or written by epilogues that sum
  void* gelu_input = nullptr;
  bool stores_gelu_input = false;  // of a gelu: writes `gelu_input`
};

// Whether the user allows matmuls to round float32 operands to TF32, which has
// 10 mantissa bits (MTF_CUDA_TF32=1).
bool Tf32IsAllowed();

// z = sum of x * y over the dimensions that z lacks, by the calls of
// choose_matmul.h; the einsum is kMatmul. Operands are packed into memory of
// `scratch`, which must outlive the kernel. kUnimplemented if there is a
// `finish` but the einsum takes several calls or a copy of its result; the
// caller then prepares the work of `finish` separately.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareMatmul(
    Runtime& runtime, Scratch& scratch, const EinsumPlan& plan,
    const BoundValue& x, const BoundValue& y, const BoundValue& z,
    const MatmulFinish& finish = {});

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_MATMUL_EINSUM_H_
