// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_EINSUM_PLAN_H_
#define LOWERING_PROGRAM_EINSUM_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace mtf {

// A dimension of an operand as it is laid out in memory.
struct StridedDimension {
  std::string name;
  int64_t extent = 1;
  int64_t stride = 1;  // in elements
  friend bool operator==(const StridedDimension&,
                         const StridedDimension&) = default;
};

// A loop of a matmul with its stride in x, y and the result; 0 where the
// operand lacks it.
struct EinsumLoop {
  int64_t extent = 1;
  int64_t x = 0, y = 0, z = 0;
  friend bool operator==(const EinsumLoop&, const EinsumLoop&) = default;
};

// The number of iterations of nested loops.
int64_t IterationsOf(const std::vector<EinsumLoop>& loops);

// A binary einsum as one strided batched matmul
//
//   z[b..., m, n] = sum over k of x[b..., m, k] * y[b..., k, n]
//
// Each of m, n and k is one loop: adjacent dimensions are folded into one if
// their strides allow it, and dimensions of m and n that do not fold become
// loops of `batch` (with stride 0 in the operand that lacks them). An operand
// is copied only if it lacks the unit stride that a matmul needs, or if the
// copy costs less than the many small matmuls that it saves.
struct EinsumPlan {
  std::vector<EinsumLoop> batch;  // outermost first
  EinsumLoop m, n, k;
  bool swapped = false;  // x of the matmul is operand y, and vice versa
  // If set, the operand is packed (x, y before, z after the matmul) into a
  // dense row-major [batch..., outer_k..., m, k], [batch..., outer_k..., k, n]
  // or [batch..., m, n], and the strides above are those of the packed form.
  bool copy_x = false, copy_y = false, copy_z = false;
  // The dimensions of the packed form, outermost first, with the strides of the
  // unpacked operand. Empty if the operand is not packed.
  std::vector<StridedDimension> pack_x, pack_y, pack_z;
  // Loops over k that do not fold: the matmul runs once per iteration and
  // accumulates. Dimensions that only one operand has and the result lacks are
  // here too, with stride 0 in the other operand.
  std::vector<EinsumLoop> outer_k;

  int64_t flops() const;  // multiplications and additions
  // "batch 8x4 m 128 n 64 k 32", and " copy x" if an operand is packed.
  std::string ToString() const;
  friend bool operator==(const EinsumPlan&, const EinsumPlan&) = default;
};

// Chooses the plan for z = einsum(x, y) from the memory layout of the three.
EinsumPlan PlanEinsum(absl::Span<const StridedDimension> x,
                      absl::Span<const StridedDimension> y,
                      absl::Span<const StridedDimension> z);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_EINSUM_PLAN_H_
