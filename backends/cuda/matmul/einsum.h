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

// What a matmul does to its result before it is written; z is laid out as the
// result of the einsum is.
struct MatmulFinish {
  MatmulProblem::Epilogue epilogue = MatmulProblem::Epilogue::kNone;
  const void* addend = nullptr;  // added first, laid out as z; may be z
  void* bias = nullptr;          // read, or written by epilogues that sum
  void* kept = nullptr;
  bool keeps = false;  // of a gelu: `kept` gets what it is of
};

// Whether the user lets matmuls round float32 operands to the 10 bits that
// tensor cores take (MTF_CUDA_TF32=1).
bool Tf32IsAllowed();

// z = sum of x * y over the dimensions that z lacks, by the calls of
// choose_matmul.h; the einsum is kMatmul. Operands are packed into memory of
// `scratch`, which outlives the kernel. kUnimplemented for a `finish` where the
// einsum takes several calls, or a copy of its result: the caller then does
// what it says by itself.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareMatmul(
    Runtime& runtime, Scratch& scratch, const EinsumPlan& plan,
    const BoundValue& x, const BoundValue& y, const BoundValue& z,
    const MatmulFinish& finish = {});

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_MATMUL_EINSUM_H_
