// SPDX-License-Identifier: Apache-2.0
//
// A SIMD vector of floats that the rows of mtf/scalar_functions.h can be
// written over, and their primitives for it. Included once per instruction set.

// Highway re-includes this file for every target, so its guard flips with it.
#if defined(BACKENDS_CPU_VECTOR_FUNCTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BACKENDS_CPU_VECTOR_FUNCTIONS_INL_H_
#undef BACKENDS_CPU_VECTOR_FUNCTIONS_INL_H_
#else
#define BACKENDS_CPU_VECTOR_FUNCTIONS_INL_H_
#endif

#include <cmath>
#include <cstddef>
#include <limits>

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
// On x86 a maximum gives its second operand where either is NaN, which leaves
// a NaN in the first to be looked after.
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

// The functions of Highway have a valid range; the rest is put right here.
HWY_INLINE Floats Exp(Floats x) {
  const Floats y(hn::Exp(FloatTag(), hn::Min(x.v, Floats(88.8).v)));
  return Select(IsNaN(x), x, Select(Greater(x, 88.72283), kInfinity, y));
}
HWY_INLINE Floats Log(Floats x) {
  const Floats inside =
      Select(Equal(x, 0.0), -kInfinity, Floats(hn::Log(FloatTag(), x.v)));
  const Mask finite = Less(x, kInfinity) && GreaterEqual(x, 0.0);
  // Infinity and NaN stay what they are; a negative number has no logarithm.
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
HWY_INLINE Floats Tanh(Floats x) {
  return Select(IsNaN(x), x, Floats(hn::Tanh(FloatTag(), x.v)));
}
HWY_INLINE Floats Sin(Floats x) {
  // Also true where a lane is NaN.
  const bool all_small = hn::AllTrue(FloatTag(), LessEqual(Abs(x), 39000.0).m);
  if (HWY_LIKELY(all_small)) return Floats(hn::Sin(FloatTag(), x.v));
  return OnEachLane(x, x, [](float a, float) { return std::sin(a); });
}
HWY_INLINE Floats Cos(Floats x) {
  const bool all_small = hn::AllTrue(FloatTag(), LessEqual(Abs(x), 39000.0).m);
  if (HWY_LIKELY(all_small)) return Floats(hn::Cos(FloatTag(), x.v));
  return OnEachLane(x, x, [](float a, float) { return std::cos(a); });
}

}  // namespace mtf::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BACKENDS_CPU_VECTOR_FUNCTIONS_INL_H_
