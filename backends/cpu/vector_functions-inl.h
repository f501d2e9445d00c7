// SPDX-License-Identifier: Apache-2.0
//
// A SIMD vector type over which the rows of mtf/scalar_functions.h are
// instantiated, and the primitives that they use. Included once per instruction
// set.

// Highway re-includes this file for every target, so its guard flips with it.
#if defined(BACKENDS_CPU_VECTOR_FUNCTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BACKENDS_CPU_VECTOR_FUNCTIONS_INL_H_
#undef BACKENDS_CPU_VECTOR_FUNCTIONS_INL_H_
#else
#define BACKENDS_CPU_VECTOR_FUNCTIONS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "backends/cpu/vector_functions.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mtf::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using FloatTag = hn::ScalableTag<float>;
using Vector = hn::Vec<FloatTag>;

struct Mask {
  hn::Mask<FloatTag> m;
};

struct Floats {
  Vector v;
  // The constants of the rows are double literals.
  Floats(double x) : v(hn::Set(FloatTag(), static_cast<float>(x))) {}
  explicit Floats(Vector vector) : v(vector) {}
};

HWY_INLINE Floats operator+(Floats x, Floats y) {
  return Floats(hn::Add(x.v, y.v));
}
HWY_INLINE Floats operator-(Floats x, Floats y) {
  return Floats(hn::Sub(x.v, y.v));
}
HWY_INLINE Floats operator*(Floats x, Floats y) {
  return Floats(hn::Mul(x.v, y.v));
}
HWY_INLINE Floats operator/(Floats x, Floats y) {
  return Floats(hn::Div(x.v, y.v));
}
HWY_INLINE Floats operator-(Floats x) { return Floats(hn::Neg(x.v)); }

HWY_INLINE Mask Less(Floats x, Floats y) { return {hn::Lt(x.v, y.v)}; }
HWY_INLINE Mask LessEqual(Floats x, Floats y) { return {hn::Le(x.v, y.v)}; }
HWY_INLINE Mask Greater(Floats x, Floats y) { return {hn::Gt(x.v, y.v)}; }
HWY_INLINE Mask GreaterEqual(Floats x, Floats y) { return {hn::Ge(x.v, y.v)}; }
HWY_INLINE Mask Equal(Floats x, Floats y) { return {hn::Eq(x.v, y.v)}; }
// Not hn::Ne, which is false where an operand is NaN.
HWY_INLINE Mask NotEqual(Floats x, Floats y) {
  return {hn::Not(hn::Eq(x.v, y.v))};
}
HWY_INLINE Mask operator&&(Mask x, Mask y) { return {hn::And(x.m, y.m)}; }
HWY_INLINE Mask operator||(Mask x, Mask y) { return {hn::Or(x.m, y.m)}; }

HWY_INLINE Floats Select(Mask condition, Floats x, Floats y) {
  return Floats(hn::IfThenElse(condition.m, x.v, y.v));
}
HWY_INLINE Floats Like(Floats, double value) { return Floats(value); }
HWY_INLINE Mask IsNaN(Floats x) { return NotEqual(x, x); }

HWY_INLINE Floats Abs(Floats x) { return Floats(hn::Abs(x.v)); }
HWY_INLINE Floats Sqrt(Floats x) { return Floats(hn::Sqrt(x.v)); }
HWY_INLINE Floats Floor(Floats x) { return Floats(hn::Floor(x.v)); }
// On x86 max returns its second operand if either is NaN, so only a NaN in the
// first needs handling.
HWY_INLINE Floats Maximum(Floats x, Floats y) {
  return Select(IsNaN(x), x, Floats(hn::Max(x.v, y.v)));
}
HWY_INLINE Floats Minimum(Floats x, Floats y) {
  return Select(IsNaN(x), x, Floats(hn::Min(x.v, y.v)));
}
HWY_INLINE Floats FloorDivide(Floats x, Floats y) { return Floor(x / y); }
HWY_INLINE Floats Mod(Floats x, Floats y) { return x - Floor(x / y) * y; }

// Calls a function of the C library on every lane.
template <class Function>
HWY_INLINE Floats OnEachLane(Floats x, Floats y, Function function) {
  const FloatTag d;
  HWY_ALIGN float a[hn::MaxLanes(d)], b[hn::MaxLanes(d)];
  hn::Store(x.v, d, a);
  hn::Store(y.v, d, b);
  for (size_t i = 0; i < hn::Lanes(d); ++i) a[i] = function(a[i], b[i]);
  return Floats(hn::Load(d, a));
}
HWY_INLINE Floats Pow(Floats x, Floats y) {
  return OnEachLane(x, y, [](float a, float b) { return std::pow(a, b); });
}

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// e^x = 2^n e^r with |r| <= ln(2) / 2 (Cody and Waite, 1980): e^r by a minimax
// polynomial of relative error 1e-8. Overflows to infinity and underflows to
// zero; NaN passes through min and max as the second operand.
HWY_INLINE Floats Exp(Floats x) {
  const FloatTag d;
  const auto set = [&](float value) HWY_ATTR { return hn::Set(d, value); };
  const Vector v = hn::Max(set(-104.0f), hn::Min(set(89.0f), x.v));
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
  const Vector magic = set(12582912.0f);
  const Vector n = hn::Sub(hn::MulAdd(v, set(1.44269504f), magic), magic);
  const Vector high = hn::NegMulAdd(n, set(0.693359375f), v);
  const Vector r = hn::NegMulAdd(n, set(-2.12194440e-4f), high);
  Vector p = hn::MulAdd(set(1.39012760e-3f), r, set(8.36314037e-3f));
  p = hn::MulAdd(p, r, set(4.16668535e-2f));
  p = hn::MulAdd(p, r, set(1.66665773e-1f));
  p = hn::MulAdd(p, r, set(4.99999996e-1f));
  const Vector e = hn::MulAdd(p, hn::Mul(r, r), hn::Add(r, set(1.0f)));
#if HWY_TARGET == HWY_AVX3
  return Floats(Vector{_mm512_scalef_ps(e.raw, n.raw)});
#else
  // 2^n in two halves, neither of which leaves the range of exponents.
  const hn::RebindToSigned<FloatTag> di;
  const auto power = [&](auto exponent) HWY_ATTR {
    return hn::BitCast(d,
                       hn::ShiftLeft<23>(hn::Add(exponent, hn::Set(di, 127))));
  };
  const auto exponent = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(exponent);
  return Floats(
      hn::Mul(hn::Mul(e, power(half)), power(hn::Sub(exponent, half))));
#endif
}

// Highway's functions have a limited domain; arguments outside are handled
// here.
HWY_INLINE Floats Log(Floats x) {
  const Floats inside =
      Select(Equal(x, 0.0), -kInfinity, Floats(hn::Log(FloatTag(), x.v)));
  const Mask finite = Less(x, kInfinity) && GreaterEqual(x, 0.0);
  // Infinity and NaN are unchanged; negative numbers become NaN.
  return Select(
      finite, inside,
      Select(Less(x, 0.0), std::numeric_limits<double>::quiet_NaN(), x));
}
HWY_INLINE Floats Log1p(Floats x) {
  const Floats y(hn::Log1p(FloatTag(), x.v));
  const Floats outside =
      Select(Less(x, -1.0), std::numeric_limits<double>::quiet_NaN(),
             Select(Equal(x, -1.0), -kInfinity, x));
  return Select(Greater(x, -1.0) && Less(x, kInfinity), y, outside);
}
// 1 - 2 / (e^2|x| + 1), which keeps the digits near 1 that gelu needs; below
// 0.625, where it would lose those near 0, x P(x^2) / Q(x^2), a minimax
// quotient of relative error 4e-9. Both share the division.
HWY_INLINE Floats Tanh(Floats x) {
  const FloatTag d;
  const auto set = [&](float value) HWY_ATTR { return hn::Set(d, value); };
  const Vector positive = hn::Abs(x.v);
  const Vector t = Exp(Floats(hn::Add(positive, positive))).v;
  const Vector u = hn::Mul(positive, positive);
  Vector p = hn::MulAdd(set(-1.53973271e-3f), u, set(7.12722013e-2f));
  p = hn::Mul(hn::MulAdd(p, u, set(9.99999996e-1f)), positive);
  const Vector q = hn::MulAdd(set(4.04605189e-1f), u, set(1.0f));
  const auto small = hn::Lt(positive, set(0.625f));
  const Vector quotient =
      hn::Div(hn::IfThenElse(small, p, set(-2.0f)),
              hn::IfThenElse(small, q, hn::Add(t, set(1.0f))));
  const Vector result = hn::Add(quotient, hn::IfThenZeroElse(small, set(1.0f)));
  return Floats(hn::CopySignToAbs(result, x.v));
}
// As for doubles, but both quotients share one exponential, of -|u|.
HWY_INLINE Floats GeluDerivative(Floats x) {
  const Floats c = Maximum(Minimum(x, 32.0), -32.0);
  const Floats square = c * c, scaled = 1.5957691216057308 * c;
  const Floats u = scaled * (1.0 + 0.044715 * square);
  const Floats e = Exp(-Abs(u));
  const Floats larger = 1.0 / (1.0 + e), smaller = e * larger;
  const Mask positive = Greater(u, 0.0);
  return Select(positive, larger, smaller) *
         (1.0 + scaled * (1.0 + 0.134145 * square) *
                    Select(positive, smaller, larger));
}
// `fast` where |x| is at most 39000, beyond which Highway's sines are
// inaccurate, and `exact` elsewhere. The function of a lane must depend on that
// lane alone: others may hold other elements in the next run, or none.
template <typename Fast, typename Exact>
HWY_INLINE Floats OfSmallAngles(Floats x, Fast fast, Exact exact) {
  const FloatTag d;
  const Mask small = LessEqual(Abs(x), 39000.0);  // false where x is NaN
  const Floats result(fast(hn::IfThenElseZero(small.m, x.v)));
  if (HWY_LIKELY(hn::AllTrue(d, small.m))) return result;
  return Select(small, result,
                OnEachLane(x, x, [&](float a, float) { return exact(a); }));
}
HWY_INLINE Floats Sin(Floats x) {
  return OfSmallAngles(
      x, [](Vector v) HWY_ATTR { return hn::Sin(FloatTag(), v); },
      [](float a) { return std::sin(a); });
}
HWY_INLINE Floats Cos(Floats x) {
  return OfSmallAngles(
      x, [](Vector v) HWY_ATTR { return hn::Cos(FloatTag(), v); },
      [](float a) { return std::cos(a); });
}

// Reads an argument by vectors; a uniform argument has a step of 0.
struct FloatArgumentReader {
  explicit FloatArgumentReader(const FloatArgument& argument)
      : data(argument.data), keep(argument.uniform ? 0 : ~int64_t{0}) {}
  HWY_INLINE Floats operator()(int64_t i) const {
    return Floats(hn::LoadU(FloatTag(), data + (i & keep)));
  }
  const float* data;
  int64_t keep;
};

HWY_INLINE Floats Result(Floats z) { return z; }
HWY_INLINE Floats Result(Mask z) { return Select(z, 1.0, 0.0); }
HWY_INLINE Mask IsTrue(Floats x) { return NotEqual(x, 0.0); }

// Writes body(i), of the vector at element i, for each vector of `n` elements.
template <class Body>
HWY_INLINE void EachVector(float* z, int64_t n, const Body& body) {
  const FloatTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; i += lanes) {
    hn::StoreU(Result(body(i)).v, d, z + i);
  }
}

// Calls body(i) for the vectors that cover `n` elements, at least kLanes. The
// last vector may contain elements of the one before it.
template <class Body>
HWY_INLINE void EachVectorOf(int64_t n, const Body& body) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(FloatTag()));
  for (int64_t i = 0; i < n; i += lanes) body(std::min(i, n - lanes));
}

}  // namespace mtf::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BACKENDS_CPU_VECTOR_FUNCTIONS_INL_H_
