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

// An einsum as calls of a library for matmuls: first the copies of operands,
// then the calls in order, then the copy of the result.
struct MatmulCalls {
  // A call of problems[problem] with each operand so many elements from where
  // it begins.
  struct Call {
    int problem = 0;
    int64_t x = 0, y = 0, z = 0;
    friend bool operator==(const Call&, const Call&) = default;
  };
  bool swapped = false;  // x is the second operand of the einsum
  // Operands that are packed into dense memory of their own before the calls,
  // and the way from such memory to the result behind them.
  std::optional<StridedCopy> pack_x, pack_y, unpack_z;
  std::vector<MatmulProblem> problems;  // each another one
  std::vector<Call> calls;

  // "m 128 n 64 k 32", "4 x batch 12 m 128 n 64 k 32, packs y": calls that
  // differ in more than beta and offsets are told one by one.
  std::string ToString() const;
};

// How the calls of `plan` look where x and y are of `dtype` and z is of
// `result`, floats all. One call where the loops over the batch fold into one;
// otherwise the library takes the longest, and each place of the others is a
// call. Sums that take several calls add up in float32, in memory of their own
// where the result is narrower. `alignment` is what the addresses of all three
// are multiples of, in bytes; more than 16 is of no use. Pure.
//
//   const MatmulCalls calls = ChooseMatmul(plan, kBFloat16, kBFloat16, 16);
//
// Of a plan without flops there are no calls.
MatmulCalls ChooseMatmul(const EinsumPlan& plan, DType dtype, DType result,
                         int alignment);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_MATMUL_CHOOSE_MATMUL_H_
