// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_MATMUL_CHOOSE_MATMUL_H_
#define BACKENDS_CUDA_MATMUL_CHOOSE_MATMUL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/kernels/strided_copy.h"
#include "backends/cuda/runtime.h"
#include "lowering/program/einsum_plan.h"
#include "mtf/dtype.h"

namespace mtf::cuda {

// An einsum as calls of a matmul library: first copies that pack operands, then
// the calls in order, then a copy to the result.
struct MatmulCalls {
  // A call of problems[problem], with an offset in elements for each operand.
  struct Call {
    int problem = 0;
    int64_t x = 0, y = 0, z = 0;
    friend bool operator==(const Call&, const Call&) = default;
  };
  bool swapped = false;  // x is the second operand of the einsum
  // Operands that are packed into dense memory before the calls, and the copy
  // from dense memory to the result after them.
  std::optional<StridedCopy> pack_x, pack_y, unpack_z;
  std::vector<MatmulProblem> problems;  // all different
  std::vector<Call> calls;

  // "m 128 n 64 k 32", "4 x batch 12 m 128 n 64 k 32, packs y". Calls that
  // differ in more than beta and offsets are listed one by one.
  std::string ToString() const;
};

// Chooses the calls for `plan`, with x and y of `dtype` and z of `result`, all
// floats. One call if the batch loops fold into one; otherwise the library
// iterates over the longest loop, and each index of the others is a call. Sums
// over several calls are accumulated in float32, in memory of their own if the
// result is narrower. `alignment`, in bytes, divides all three addresses; more
// than 16 has no effect. A plan without flops gives no calls. Pure function.
//
//   const MatmulCalls calls = ChooseMatmul(plan, kBFloat16, kBFloat16, 16);
MatmulCalls ChooseMatmul(const EinsumPlan& plan, DType dtype, DType result,
                         int alignment);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_MATMUL_CHOOSE_MATMUL_H_
