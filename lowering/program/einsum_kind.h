// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_EINSUM_KIND_H_
#define LOWERING_PROGRAM_EINSUM_KIND_H_

#include <cstdint>
#include <vector>

#include "lowering/program/einsum_plan.h"
#include "mtf/dtype.h"

namespace mtf {

// What computes an einsum on a device that calls a library for matmuls.
enum class EinsumKind : uint8_t {
  kZero,     // nothing to sum: the result is zeros
  kProduct,  // no sum: a map of kMultiply over both operands
  kReduce,   // of integers, without rows and columns of its own, or of so many
             // small matmuls that one reduction of the products is faster
  kMatmul,   // one call of the library or several
};
EinsumKind KindOfEinsum(const EinsumPlan& plan, DType dtype);

// The loops of a batch with those folded that are one loop in all operands. The
// plan folds dimensions of one role; loops over rows of one operand and loops
// of both may fold as well.
std::vector<EinsumLoop> FoldBatch(std::vector<EinsumLoop> loops);

// Whether a kMatmul is one call that writes the result where it belongs: what
// comes behind it can be part of it.
bool IsOneMatmul(const EinsumPlan& plan);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_EINSUM_KIND_H_
