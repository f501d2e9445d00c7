// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_EINSUM_KIND_H_
#define LOWERING_PROGRAM_EINSUM_KIND_H_

#include <cstdint>
#include <vector>

#include "lowering/program/einsum_plan.h"
#include "mtf/dtype.h"

namespace mtf {

// How a device that calls a library for matmuls computes an einsum.
enum class EinsumKind : uint8_t {
  kZero,     // the sum is over no elements: zeros
  kProduct,  // nothing is summed: a map of kMultiply over both operands
  kReduce,   // a reduction of the products: of integers, of dot products, or if
             // it is faster than many small matmuls
  kMatmul,   // one or several calls of the library
};
EinsumKind KindOfEinsum(const EinsumPlan& plan, DType dtype);

// Folds loops of a batch that are one loop in both operands and the result. The
// plan has folded dimensions of the same role; this folds loops of different
// roles too.
std::vector<EinsumLoop> FoldBatch(std::vector<EinsumLoop> loops);

// Whether a kMatmul is a single call that writes the result in place, so that
// an epilogue can be fused into it.
bool IsOneMatmul(const EinsumPlan& plan);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_EINSUM_KIND_H_
