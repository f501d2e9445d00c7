// SPDX-License-Identifier: Apache-2.0
//
// Pairs of steps of a map as one vector loop, so that the result of the first
// stays in registers.
#ifndef BACKENDS_CPU_FUNCTION_PAIRS_H_
#define BACKENDS_CPU_FUNCTION_PAIRS_H_

#include <cstdint>

#include "backends/cpu/vector_functions.h"
#include "mtf/scalar_functions.h"

namespace mtf::cpu {

// A function of floats whose result the second function reads, as its left
// argument or as its right one.
struct FunctionPair {
  ScalarFunction first, second;
  bool is_left = true;
};

// Whether pairs may contain the function: sums, differences and products, whose
// loops take less time than to write and read their results.
bool IsPairable(ScalarFunction function);

// z = second(first(x[0], x[1]), x[2]), or second(x[2], first(x[0], x[1])) if
// the result of the first is the right argument. Rounds both results, so the
// bits are those of two loops. `n` is a multiple of kLanes; `z` may be one of
// the arguments.
void EvaluateFloatPair(const FunctionPair& pair, const FloatArgument* x,
                       float* z, int64_t n);

// z = (x[0] - x[1]) * x[2] + x[3], rounded as three loops would.
void EvaluateScaledDifference(const FloatArgument* x, float* z, int64_t n);

// Of d = x[row * columns + i] - center[i], sums[i] += d and squares[i] += d *
// d, one row after the other, rounded as loops of their own would.
void AddRowMoments(const float* x, const float* center, int64_t rows,
                   int64_t columns, float* sums, float* squares);

// sums[i] += x[row * columns + i] * y[row * columns + i], one row after the
// other. Rounds the products, as a loop of its own for them would.
void AddRowsOfProducts(const float* x, const float* y, int64_t rows,
                       int64_t columns, float* sums);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_FUNCTION_PAIRS_H_
