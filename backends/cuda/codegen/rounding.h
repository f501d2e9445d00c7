// SPDX-License-Identifier: Apache-2.0
//
// Rounding of sizes when work is divided among blocks and threads.
#ifndef BACKENDS_CUDA_CODEGEN_ROUNDING_H_
#define BACKENDS_CUDA_CODEGEN_ROUNDING_H_

#include <cstdint>

namespace mtf::cuda {

// a / b, rounded up.
inline int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The smallest multiple of `b` that is at least `a`.
inline int64_t RoundUp(int64_t a, int64_t b) { return CeilDivide(a, b) * b; }

// The smallest power of two that is at least `least`, or `most` (a power of
// two) if it would be larger.
inline int PowerOfTwoFrom(int64_t least, int most) {
  int power = 1;
  while (power < most && power < least) power *= 2;
  return power;
}

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_CODEGEN_ROUNDING_H_
