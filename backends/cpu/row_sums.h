// SPDX-License-Identifier: Apache-2.0
//
// Sums over rows that several members of a row group share a loop for, so that
// memory is read once and the sums stay in registers. Each adds one row after
// the other and rounds as a loop of its own would.
#ifndef BACKENDS_CPU_ROW_SUMS_H_
#define BACKENDS_CPU_ROW_SUMS_H_

#include <cstdint>

namespace mtf::cpu {

// sums[i] += x[row * columns + i] * y[row * columns + i].
void AddRowsOfProducts(const float* x, const float* y, int64_t rows,
                       int64_t columns, float* sums);

// The sums of a batch norm and of its gradient. Null: not computed; the first
// two are both null or neither, and so are the others.
struct MomentSums {
  float* differences = nullptr;  // d = x - center
  float* squares = nullptr;      // d * d
  float* weights = nullptr;      // y
  float* products = nullptr;     // y * d
};

// Adds rows of `x`, and of `y` where its sums are wanted.
void AddRowMoments(const float* x, const float* center, const float* y,
                   int64_t rows, int64_t columns, const MomentSums& sums);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_ROW_SUMS_H_
