// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/vector_functions.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/highway_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector_functions.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "backends/cpu/vector_functions-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mtf::cpu::HWY_NAMESPACE {
namespace {

// Switches on the function outside of the loop, so that each row has its own
// loop.
void EvaluateFloatsImpl(ScalarFunction function, const FloatArgument* arguments,
                        float* out, int64_t n) {
  using F = ScalarFunction;
  switch (function) {
#define ROW(Name, text, value, ...)                 \
  case F::k##Name: {                                \
    const FloatArgumentReader read_x(arguments[0]); \
    EachVector(out, n, [&](int64_t i) HWY_ATTR {    \
      const Floats x = read_x(i);                   \
      return value;                                 \
    });                                             \
    return;                                         \
  }
    MTF_UNARY_FLOAT_FUNCTIONS(ROW)
    MTF_UNARY_NUMBER_FUNCTIONS(ROW)
#undef ROW
#define ROW(Name, text, value, ...)                                       \
  case F::k##Name: {                                                      \
    const FloatArgumentReader read_x(arguments[0]), read_y(arguments[1]); \
    EachVector(out, n, [&](int64_t i) HWY_ATTR {                          \
      const Floats x = read_x(i), y = read_y(i);                          \
      return value;                                                       \
    });                                                                   \
    return;                                                               \
  }
    MTF_BINARY_NUMBER_FUNCTIONS(ROW)
    MTF_BINARY_FLOAT_FUNCTIONS(ROW)
    MTF_COMPARISON_FUNCTIONS(ROW)
#undef ROW
#define ROW(Name, text, value, ...)                                       \
  case F::k##Name: {                                                      \
    const FloatArgumentReader read_x(arguments[0]), read_y(arguments[1]); \
    EachVector(out, n, [&](int64_t i) HWY_ATTR {                          \
      const Mask x = IsTrue(read_x(i)), y = IsTrue(read_y(i));            \
      return value;                                                       \
    });                                                                   \
    return;                                                               \
  }
    MTF_LOGICAL_FUNCTIONS(ROW)
#undef ROW
    case F::kLogicalNot: {
      const FloatArgumentReader read_x(arguments[0]);
      EachVector(out, n,
                 [&](int64_t i) HWY_ATTR { return Equal(read_x(i), 0.0); });
      return;
    }
    case F::kSelect: {
      const FloatArgumentReader read_c(arguments[0]), read_x(arguments[1]),
          read_y(arguments[2]);
      EachVector(out, n, [&](int64_t i) HWY_ATTR {
        return Select(IsTrue(read_c(i)), read_x(i), read_y(i));
      });
      return;
    }
    case F::kCast:
    case F::kLiteral:
    case F::kIota:
      return;  // not functions of floats
  }
}

template <class Combine>
HWY_INLINE float ReduceWith(const float* x, int64_t n, float identity,
                            const Combine& combine) {
  // The number of logical lanes is the same for every vector width, so that
  // every instruction set gives the same bits.
  constexpr int64_t kWide = 32;
  const FloatTag d;
  constexpr size_t kVectors = kWide / hn::MaxLanes(FloatTag());
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  Vector sums[kVectors];
  for (size_t j = 0; j < kVectors; ++j) sums[j] = hn::Set(d, identity);
  int64_t i = 0;
  for (; i + kWide <= n; i += kWide) {
    for (size_t j = 0; j < kVectors; ++j) {
      sums[j] =
          combine(Floats(sums[j]), Floats(hn::LoadU(d, x + i + j * lanes))).v;
    }
  }
  HWY_ALIGN float wide[kWide];
  if (i < n) {
    for (int64_t j = 0; j < kWide; ++j) {
      wide[j] = i + j < n ? x[i + j] : identity;
    }
    for (size_t j = 0; j < kVectors; ++j) {
      sums[j] =
          combine(Floats(sums[j]), Floats(hn::Load(d, wide + j * lanes))).v;
    }
  }
  for (size_t j = 0; j < kVectors; ++j) {
    hn::Store(sums[j], d, wide + j * lanes);
  }
  for (int64_t half = kWide / 2; half >= lanes; half /= 2) {
    for (int64_t j = 0; j < half; j += lanes) {
      hn::Store(combine(Floats(hn::Load(d, wide + j)),
                        Floats(hn::Load(d, wide + j + half)))
                    .v,
                d, wide + j);
    }
  }
  // Below the vector width, halving continues with repeated lanes.
  for (int64_t half = std::min<int64_t>(lanes, kWide) / 2; half >= 1;
       half /= 2) {
    const Vector v = hn::Load(d, wide);
    HWY_ALIGN float upper[hn::MaxLanes(FloatTag())];
    for (int64_t j = 0; j < lanes; ++j) upper[j] = wide[(j + half) % lanes];
    hn::Store(combine(Floats(v), Floats(hn::Load(d, upper))).v, d, wide);
  }
  return wide[0];
}

float ReduceFloatsImpl(ReduceKind kind, const float* x, int64_t n) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  switch (kind) {
    case ReduceKind::kSum:
      return ReduceWith(x, n, 0.0f,
                        [](Floats a, Floats b) HWY_ATTR { return a + b; });
    case ReduceKind::kMax:
      return ReduceWith(x, n, -kInf, [](Floats a, Floats b) HWY_ATTR {
        return Maximum(a, b);
      });
    case ReduceKind::kMin:
      return ReduceWith(x, n, kInf, [](Floats a, Floats b) HWY_ATTR {
        return Minimum(a, b);
      });
  }
  return 0;
}

template <class Combine>
HWY_INLINE void AccumulateWith(const float* x, float* sums, int64_t n,
                               const Combine& combine) {
  const FloatTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(
        combine(Floats(hn::LoadU(d, sums + i)), Floats(hn::LoadU(d, x + i))).v,
        d, sums + i);
  }
  if (i == n) return;
  HWY_ALIGN float a[hn::MaxLanes(FloatTag())] = {};
  HWY_ALIGN float b[hn::MaxLanes(FloatTag())] = {};
  for (int64_t j = i; j < n; ++j) {
    a[j - i] = sums[j];
    b[j - i] = x[j];
  }
  hn::Store(combine(Floats(hn::Load(d, a)), Floats(hn::Load(d, b))).v, d, a);
  for (int64_t j = i; j < n; ++j) sums[j] = a[j - i];
}

void AccumulateFloatsImpl(ReduceKind kind, const float* x, float* sums,
                          int64_t n) {
  switch (kind) {
    case ReduceKind::kSum:
      AccumulateWith(x, sums, n,
                     [](Floats a, Floats b) HWY_ATTR { return a + b; });
      return;
    case ReduceKind::kMax:
      AccumulateWith(x, sums, n,
                     [](Floats a, Floats b) HWY_ATTR { return Maximum(a, b); });
      return;
    case ReduceKind::kMin:
      AccumulateWith(x, sums, n,
                     [](Floats a, Floats b) HWY_ATTR { return Minimum(a, b); });
      return;
  }
}

// Sums stay in registers: `kVectors` at a time.
template <int kVectors>
HWY_INLINE void AddRowsOfVectors(const float* x, int64_t rows, int64_t columns,
                                 float* sums) {
  const FloatTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  Vector total[kVectors];
  for (int v = 0; v < kVectors; ++v) total[v] = hn::LoadU(d, sums + v * lanes);
  for (int64_t r = 0; r < rows; ++r, x += columns) {
    for (int v = 0; v < kVectors; ++v) {
      total[v] = hn::Add(total[v], hn::LoadU(d, x + v * lanes));
    }
  }
  for (int v = 0; v < kVectors; ++v) hn::StoreU(total[v], d, sums + v * lanes);
}

void AddRowsOfFloatsImpl(const float* x, int64_t rows, int64_t columns,
                         float* sums) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(FloatTag()));
  int64_t i = 0;
  for (; i + 4 * lanes <= columns; i += 4 * lanes) {
    AddRowsOfVectors<4>(x + i, rows, columns, sums + i);
  }
  for (; i + lanes <= columns; i += lanes) {
    AddRowsOfVectors<1>(x + i, rows, columns, sums + i);
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = i; c < columns; ++c) sums[c] += x[r * columns + c];
  }
}

}  // namespace
}  // namespace mtf::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtf::cpu {

HWY_EXPORT(EvaluateFloatsImpl);
HWY_EXPORT(ReduceFloatsImpl);
HWY_EXPORT(AccumulateFloatsImpl);
HWY_EXPORT(AddRowsOfFloatsImpl);

void EvaluateFloats(ScalarFunction function, const FloatArgument* x, float* z,
                    int64_t n) {
  if (function == ScalarFunction::kDivide && x[1].uniform &&
      HasExactReciprocal(x[1].data[0])) {
    float reciprocals[kLanes];
    std::fill(reciprocals, reciprocals + kLanes, 1.0f / x[1].data[0]);
    const FloatArgument factors[] = {x[0], {reciprocals, true}};
    HWY_DYNAMIC_DISPATCH(EvaluateFloatsImpl)
    (ScalarFunction::kMultiply, factors, z, n);
    return;
  }
  HWY_DYNAMIC_DISPATCH(EvaluateFloatsImpl)(function, x, z, n);
}

float ReduceFloats(ReduceKind kind, const float* x, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(ReduceFloatsImpl)(kind, x, n);
}

void AccumulateFloats(ReduceKind kind, const float* x, float* sums, int64_t n) {
  HWY_DYNAMIC_DISPATCH(AccumulateFloatsImpl)(kind, x, sums, n);
}

void AddRowsOfFloats(const float* x, int64_t rows, int64_t columns,
                     float* sums) {
  HWY_DYNAMIC_DISPATCH(AddRowsOfFloatsImpl)(x, rows, columns, sums);
}

}  // namespace mtf::cpu
#endif  // HWY_ONCE
