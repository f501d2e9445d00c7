// SPDX-License-Identifier: Apache-2.0
//
// The rows of mtf/scalar_functions.h on blocks in the first-level cache. Each
// is compiled for several instruction sets; the best is selected at run time.
#ifndef BACKENDS_CPU_VECTOR_FUNCTIONS_H_
#define BACKENDS_CPU_VECTOR_FUNCTIONS_H_

#include <cmath>
#include <cstdint>

#include "mtf/emitter.h"
#include "mtf/half.h"
#include "mtf/scalar_functions.h"

namespace mtf::cpu {

// Functions work on full vectors: `n` below is a multiple of kLanes, and the
// bits of an element do not depend on its index in a block.
inline constexpr int64_t kLanes = 16;

// An argument: `n` elements, or kLanes equal ones that represent all.
struct FloatArgument {
  const float* data = nullptr;
  bool uniform = false;
};
struct IntArgument {
  const int64_t* data = nullptr;
  bool uniform = false;
};

// Whether multiplying by 1 / x has the bits of dividing by x: for powers of two
// whose reciprocal is a normal number.
inline bool HasExactReciprocal(float x) {
  int exponent = 0;
  return std::abs(std::frexp(x, &exponent)) == 0.5f &&
         std::abs(exponent) <= 120;
}

// z = function(x...) for the rows of the table, kLogicalNot and kSelect. Bools
// are the floats 0 and 1. `z` may be one of the arguments.
void EvaluateFloats(ScalarFunction function, const FloatArgument* x, float* z,
                    int64_t n);

// The rows on integers, with wrap-around at 64 bits. For a division by zero the
// quotient is 0 and the remainder x.
void EvaluateInts(ScalarFunction function, const IntArgument* x, int64_t* z,
                  int64_t n);
void CompareInts(ScalarFunction function, const IntArgument* x, float* z,
                 int64_t n);
void SelectInts(FloatArgument condition, IntArgument x, IntArgument y,
                int64_t* z, int64_t n);

// Converts floats to bfloat16, rounded to nearest even; any `n`.
void FloatsToBFloats(const float* x, BFloat16* z, int64_t n);
// Rounds floats to bfloat16 values; `z` may be `x`.
void RoundToBFloats(const float* x, float* z, int64_t n);

// Reduces any `n` floats in 32 interleaved lanes, in an order that depends only
// on `n`. Max and min propagate NaN.
float ReduceFloats(ReduceKind kind, const float* x, int64_t n);
// sums[i] = combine(sums[i], x[i]) for any `n`.
void AccumulateFloats(ReduceKind kind, const float* x, float* sums, int64_t n);
// sums[i] += x[row * columns + i], one row after the other.
void AddRowsOfFloats(const float* x, int64_t rows, int64_t columns,
                     float* sums);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_VECTOR_FUNCTIONS_H_
