// SPDX-License-Identifier: Apache-2.0
//
// Compiled with -ffp-contract=off (CMakeLists.txt): a fused multiply-add would
// not round the product, and a sum in a group would differ from one alone.
#include "backends/cpu/row_sums.h"

#include "backends/cpu/highway_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/row_sums.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "backends/cpu/vector_functions-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mtf::cpu::HWY_NAMESPACE {
namespace {

int64_t LanesOfRowSums() { return static_cast<int64_t>(hn::Lanes(FloatTag())); }

// Sums stay in registers: `kVectors` at a time.
template <int kVectors>
HWY_INLINE void AddProductsOfVectors(const float* x, const float* y,
                                     int64_t rows, int64_t columns,
                                     float* sums) {
  const FloatTag d;
  const int64_t lanes = LanesOfRowSums();
  Vector total[kVectors];
  for (int v = 0; v < kVectors; ++v) total[v] = hn::LoadU(d, sums + v * lanes);
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    for (int v = 0; v < kVectors; ++v) {
      const Vector product =
          hn::Mul(hn::LoadU(d, x + v * lanes), hn::LoadU(d, y + v * lanes));
      total[v] = hn::Add(total[v], product);
    }
  }
  for (int v = 0; v < kVectors; ++v) hn::StoreU(total[v], d, sums + v * lanes);
}

void AddRowsOfProductsImpl(const float* x, const float* y, int64_t rows,
                           int64_t columns, float* sums) {
  const int64_t lanes = LanesOfRowSums();
  int64_t i = 0;
  for (; i + 4 * lanes <= columns; i += 4 * lanes) {
    AddProductsOfVectors<4>(x + i, y + i, rows, columns, sums + i);
  }
  for (; i + lanes <= columns; i += lanes) {
    AddProductsOfVectors<1>(x + i, y + i, rows, columns, sums + i);
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = i; c < columns; ++c) {
      sums[c] += x[r * columns + c] * y[r * columns + c];
    }
  }
}

template <int kVectors>
HWY_INLINE void LoadVectors(const float* from, Vector (&to)[kVectors]) {
  for (int v = 0; v < kVectors; ++v) {
    to[v] = hn::LoadU(FloatTag(), from + v * LanesOfRowSums());
  }
}

template <int kVectors>
HWY_INLINE void StoreVectors(const Vector (&from)[kVectors], float* to) {
  for (int v = 0; v < kVectors; ++v) {
    hn::StoreU(from[v], FloatTag(), to + v * LanesOfRowSums());
  }
}

// Columns from `begin` on.
template <bool kMoments, bool kWeights, int kVectors>
HWY_INLINE void AddMomentsOfVectors(const float* x, const float* center,
                                    const float* y, int64_t rows,
                                    int64_t columns, int64_t begin,
                                    const MomentSums& sums) {
  const FloatTag d;
  const int64_t lanes = LanesOfRowSums();
  Vector middle[kVectors], total[kVectors], square[kVectors], weight[kVectors],
      product[kVectors];
  LoadVectors(center + begin, middle);
  if constexpr (kMoments) {
    LoadVectors(sums.differences + begin, total);
    LoadVectors(sums.squares + begin, square);
  }
  if constexpr (kWeights) {
    LoadVectors(sums.weights + begin, weight);
    LoadVectors(sums.products + begin, product);
  }
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = r * columns + begin;
    for (int v = 0; v < kVectors; ++v) {
      const Vector difference =
          hn::Sub(hn::LoadU(d, x + at + v * lanes), middle[v]);
      if constexpr (kMoments) {
        total[v] = hn::Add(total[v], difference);
        square[v] = hn::Add(square[v], hn::Mul(difference, difference));
      }
      if constexpr (kWeights) {
        const Vector other = hn::LoadU(d, y + at + v * lanes);
        weight[v] = hn::Add(weight[v], other);
        product[v] = hn::Add(product[v], hn::Mul(other, difference));
      }
    }
  }
  if constexpr (kMoments) {
    StoreVectors(total, sums.differences + begin);
    StoreVectors(square, sums.squares + begin);
  }
  if constexpr (kWeights) {
    StoreVectors(weight, sums.weights + begin);
    StoreVectors(product, sums.products + begin);
  }
}

template <bool kMoments, bool kWeights>
void AddMomentsOf(const float* x, const float* center, const float* y,
                  int64_t rows, int64_t columns, const MomentSums& sums) {
  // As many sums as there are registers for.
  constexpr bool kHas32 = hn::MaxLanes(FloatTag()) >= 16;
  constexpr int kVectors = kMoments && kWeights && !kHas32 ? 2 : 4;
  const int64_t lanes = LanesOfRowSums();
  int64_t i = 0;
  for (; i + kVectors * lanes <= columns; i += kVectors * lanes) {
    AddMomentsOfVectors<kMoments, kWeights, kVectors>(x, center, y, rows,
                                                      columns, i, sums);
  }
  for (; i + lanes <= columns; i += lanes) {
    AddMomentsOfVectors<kMoments, kWeights, 1>(x, center, y, rows, columns, i,
                                               sums);
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = i; c < columns; ++c) {
      const float difference = x[r * columns + c] - center[c];
      if constexpr (kMoments) {
        sums.differences[c] += difference;
        sums.squares[c] += difference * difference;
      }
      if constexpr (kWeights) {
        sums.weights[c] += y[r * columns + c];
        sums.products[c] += y[r * columns + c] * difference;
      }
    }
  }
}

void AddRowMomentsImpl(const float* x, const float* center, const float* y,
                       int64_t rows, int64_t columns, const MomentSums& sums) {
  if (sums.weights == nullptr) {
    return AddMomentsOf<true, false>(x, center, y, rows, columns, sums);
  }
  if (sums.differences == nullptr) {
    return AddMomentsOf<false, true>(x, center, y, rows, columns, sums);
  }
  AddMomentsOf<true, true>(x, center, y, rows, columns, sums);
}

}  // namespace
}  // namespace mtf::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtf::cpu {

HWY_EXPORT(AddRowsOfProductsImpl);
HWY_EXPORT(AddRowMomentsImpl);

void AddRowsOfProducts(const float* x, const float* y, int64_t rows,
                       int64_t columns, float* sums) {
  HWY_DYNAMIC_DISPATCH(AddRowsOfProductsImpl)(x, y, rows, columns, sums);
}

void AddRowMoments(const float* x, const float* center, const float* y,
                   int64_t rows, int64_t columns, const MomentSums& sums) {
  HWY_DYNAMIC_DISPATCH(AddRowMomentsImpl)(x, center, y, rows, columns, sums);
}

}  // namespace mtf::cpu
#endif  // HWY_ONCE
