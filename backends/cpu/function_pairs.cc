// SPDX-License-Identifier: Apache-2.0
//
// Compiled with -ffp-contract=off (CMakeLists.txt): a fused multiply-add would
// not round the product, and a fused map would differ from its maps.
#include "backends/cpu/function_pairs.h"

#include "backends/cpu/highway_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/function_pairs.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "backends/cpu/vector_functions-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mtf::cpu::HWY_NAMESPACE {
namespace {

struct SumOf {
  HWY_INLINE Floats operator()(Floats x, Floats y) const { return x + y; }
};
struct DifferenceOf {
  HWY_INLINE Floats operator()(Floats x, Floats y) const { return x - y; }
};
struct ProductOf {
  HWY_INLINE Floats operator()(Floats x, Floats y) const { return x * y; }
};

template <class First, class Second>
HWY_INLINE void LoopOfPair(bool is_left, const FloatArgument* x, float* z,
                           int64_t n) {
  const FloatArgumentReader read_a(x[0]), read_b(x[1]), read_c(x[2]);
  if (is_left) {
    return EachVector(z, n, [&](int64_t i) HWY_ATTR {
      return Second()(First()(read_a(i), read_b(i)), read_c(i));
    });
  }
  EachVector(z, n, [&](int64_t i) HWY_ATTR {
    return Second()(read_c(i), First()(read_a(i), read_b(i)));
  });
}

template <class First>
HWY_INLINE void LoopOfFirst(const FunctionPair& pair, const FloatArgument* x,
                            float* z, int64_t n) {
  switch (pair.second) {
    case ScalarFunction::kAdd:
      return LoopOfPair<First, SumOf>(pair.is_left, x, z, n);
    case ScalarFunction::kSubtract:
      return LoopOfPair<First, DifferenceOf>(pair.is_left, x, z, n);
    default:
      return LoopOfPair<First, ProductOf>(pair.is_left, x, z, n);
  }
}

void EvaluateFloatPairImpl(const FunctionPair& pair, const FloatArgument* x,
                           float* z, int64_t n) {
  switch (pair.first) {
    case ScalarFunction::kAdd:
      return LoopOfFirst<SumOf>(pair, x, z, n);
    case ScalarFunction::kSubtract:
      return LoopOfFirst<DifferenceOf>(pair, x, z, n);
    default:
      return LoopOfFirst<ProductOf>(pair, x, z, n);
  }
}

void EvaluateScaledDifferenceImpl(const FloatArgument* x, float* z, int64_t n) {
  const FloatArgumentReader read_a(x[0]), read_b(x[1]), read_c(x[2]),
      read_d(x[3]);
  EachVector(z, n, [&](int64_t i) HWY_ATTR {
    return (read_a(i) - read_b(i)) * read_c(i) + read_d(i);
  });
}

template <int kVectors>
HWY_INLINE void AddMomentsOfVectors(const float* x, const float* center,
                                    int64_t rows, int64_t columns, float* sums,
                                    float* squares) {
  const FloatTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  Vector total[kVectors], square[kVectors], middle[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    total[v] = hn::LoadU(d, sums + v * lanes);
    square[v] = hn::LoadU(d, squares + v * lanes);
    middle[v] = hn::LoadU(d, center + v * lanes);
  }
  for (int64_t r = 0; r < rows; ++r, x += columns) {
    for (int v = 0; v < kVectors; ++v) {
      const Vector difference = hn::Sub(hn::LoadU(d, x + v * lanes), middle[v]);
      total[v] = hn::Add(total[v], difference);
      square[v] = hn::Add(square[v], hn::Mul(difference, difference));
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    hn::StoreU(total[v], d, sums + v * lanes);
    hn::StoreU(square[v], d, squares + v * lanes);
  }
}

void AddRowMomentsImpl(const float* x, const float* center, int64_t rows,
                       int64_t columns, float* sums, float* squares) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(FloatTag()));
  int64_t i = 0;
  for (; i + 4 * lanes <= columns; i += 4 * lanes) {
    AddMomentsOfVectors<4>(x + i, center + i, rows, columns, sums + i,
                           squares + i);
  }
  for (; i + lanes <= columns; i += lanes) {
    AddMomentsOfVectors<1>(x + i, center + i, rows, columns, sums + i,
                           squares + i);
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = i; c < columns; ++c) {
      const float difference = x[r * columns + c] - center[c];
      sums[c] += difference;
      squares[c] += difference * difference;
    }
  }
}

// Sums stay in registers: `kVectors` at a time.
template <int kVectors>
HWY_INLINE void AddRowsOfVectorProducts(const float* x, const float* y,
                                        int64_t rows, int64_t columns,
                                        float* sums) {
  const FloatTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
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
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(FloatTag()));
  int64_t i = 0;
  for (; i + 4 * lanes <= columns; i += 4 * lanes) {
    AddRowsOfVectorProducts<4>(x + i, y + i, rows, columns, sums + i);
  }
  for (; i + lanes <= columns; i += lanes) {
    AddRowsOfVectorProducts<1>(x + i, y + i, rows, columns, sums + i);
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = i; c < columns; ++c) {
      sums[c] += x[r * columns + c] * y[r * columns + c];
    }
  }
}

}  // namespace
}  // namespace mtf::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtf::cpu {

HWY_EXPORT(EvaluateFloatPairImpl);
HWY_EXPORT(EvaluateScaledDifferenceImpl);
HWY_EXPORT(AddRowMomentsImpl);
HWY_EXPORT(AddRowsOfProductsImpl);

bool IsPairable(ScalarFunction function) {
  return function == ScalarFunction::kAdd ||
         function == ScalarFunction::kSubtract ||
         function == ScalarFunction::kMultiply;
}

void EvaluateFloatPair(const FunctionPair& pair, const FloatArgument* x,
                       float* z, int64_t n) {
  HWY_DYNAMIC_DISPATCH(EvaluateFloatPairImpl)(pair, x, z, n);
}

void EvaluateScaledDifference(const FloatArgument* x, float* z, int64_t n) {
  HWY_DYNAMIC_DISPATCH(EvaluateScaledDifferenceImpl)(x, z, n);
}

void AddRowMoments(const float* x, const float* center, int64_t rows,
                   int64_t columns, float* sums, float* squares) {
  HWY_DYNAMIC_DISPATCH(AddRowMomentsImpl)
  (x, center, rows, columns, sums, squares);
}

void AddRowsOfProducts(const float* x, const float* y, int64_t rows,
                       int64_t columns, float* sums) {
  HWY_DYNAMIC_DISPATCH(AddRowsOfProductsImpl)(x, y, rows, columns, sums);
}

}  // namespace mtf::cpu
#endif  // HWY_ONCE
