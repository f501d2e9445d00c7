// SPDX-License-Identifier: Apache-2.0
//
// Sums over rows. Their order is the same in a row group and alone: stripes of
// StripeRows rows, in each of which kRowsInFloat rows are added in float, one
// after the other, before they are added to double; then one stripe after the
// other.
#ifndef BACKENDS_CPU_ROW_SUMS_H_
#define BACKENDS_CPU_ROW_SUMS_H_

#include <algorithm>
#include <cstdint>

#include "backends/cpu/rounding.h"

namespace mtf::cpu {

inline constexpr int64_t kRowsInFloat = 64;

// The rows of a stripe: at least 16, in at most 64 stripes.
inline int64_t StripeRows(int64_t rows) {
  return std::max<int64_t>(16, CeilDivide(rows, 64));
}

// Below are loops that several members of a group share, so that memory is read
// once and the sums stay in registers. They round as loops of their own would.

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
