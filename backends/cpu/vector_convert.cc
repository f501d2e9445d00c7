// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "backends/cpu/highway_targets.h"
#include "backends/cpu/vector_functions.h"
#include "mtf/check.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector_convert.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mtf::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using FloatTag = hn::ScalableTag<float>;
using BitsTag = hn::RebindToUnsigned<FloatTag>;
using LongTag = hn::ScalableTag<int64_t>;

// The bits of the rounded bfloat16 in the upper half of each lane; the lower
// half is zero.
HWY_INLINE hn::Vec<BitsTag> RoundedBits(hn::Vec<FloatTag> x) {
  const BitsTag du;
  const auto bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu)));
  // NaN stays NaN, made quiet, instead of rounding to infinity.
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000u));
  const auto is_number = hn::RebindMask(du, hn::Eq(x, x));
  return hn::And(hn::IfThenElse(is_number, rounded, quiet),
                 hn::Set(du, 0xffff0000u));
}

void FloatsToBFloatsImpl(const float* x, BFloat16* z, int64_t n) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const hn::Rebind<uint16_t, FloatTag> d16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto* out = reinterpret_cast<uint16_t*>(z);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto bits = hn::ShiftRight<16>(RoundedBits(hn::LoadU(d, x + i)));
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, bits)), d16, out + i);
  }
  for (; i < n; ++i) z[i] = ToBFloat16(x[i]);
}

void RoundToBFloatsImpl(const float* x, float* z, int64_t n) {
  const FloatTag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::BitCast(d, RoundedBits(hn::LoadU(d, x + i))), d, z + i);
  }
  for (; i < n; ++i) z[i] = ToFloat(ToBFloat16(x[i]));
}

// The comparisons of the table by their names.
using Longs = hn::Vec<LongTag>;
using LongMask = hn::Mask<LongTag>;
HWY_INLINE LongMask Less(Longs x, Longs y) { return hn::Lt(x, y); }
HWY_INLINE LongMask LessEqual(Longs x, Longs y) {
  return hn::Not(hn::Gt(x, y));
}
HWY_INLINE LongMask Greater(Longs x, Longs y) { return hn::Gt(x, y); }
HWY_INLINE LongMask GreaterEqual(Longs x, Longs y) {
  return hn::Not(hn::Lt(x, y));
}
HWY_INLINE LongMask Equal(Longs x, Longs y) { return hn::Eq(x, y); }
HWY_INLINE LongMask NotEqual(Longs x, Longs y) { return hn::Not(hn::Eq(x, y)); }

template <class Compare>
HWY_INLINE void CompareLoop(const IntArgument* arguments, float* z, int64_t n,
                            const Compare& compare) {
  const LongTag d;
  const hn::RebindToUnsigned<LongTag> du;
  const hn::Rebind<uint32_t, LongTag> narrow;
  // The bits of 1.0f, or none.
  const auto one = hn::Set(d, int64_t{0x3f800000});
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t keep_x = arguments[0].uniform ? 0 : ~int64_t{0};
  const int64_t keep_y = arguments[1].uniform ? 0 : ~int64_t{0};
  auto* bits = reinterpret_cast<uint32_t*>(z);
  for (int64_t i = 0; i < n; i += lanes) {
    const auto mask = compare(hn::LoadU(d, arguments[0].data + (i & keep_x)),
                              hn::LoadU(d, arguments[1].data + (i & keep_y)));
    const auto wide = hn::BitCast(du, hn::IfThenElseZero(mask, one));
    hn::StoreU(hn::TruncateTo(narrow, wide), narrow, bits + i);
  }
}

bool CompareIntsImpl(ScalarFunction function, const IntArgument* arguments,
                     float* z, int64_t n) {
  switch (function) {
#define ROW(Name, text, value)                                    \
  case ScalarFunction::k##Name:                                   \
    CompareLoop(arguments, z, n,                                  \
                [](Longs x, Longs y) HWY_ATTR { return value; }); \
    return true;
    MTF_COMPARISON_FUNCTIONS(ROW)
#undef ROW
    default:
      return false;
  }
}

}  // namespace
}  // namespace mtf::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtf::cpu {

HWY_EXPORT(FloatsToBFloatsImpl);
HWY_EXPORT(RoundToBFloatsImpl);
HWY_EXPORT(CompareIntsImpl);

void FloatsToBFloats(const float* x, BFloat16* z, int64_t n) {
  HWY_DYNAMIC_DISPATCH(FloatsToBFloatsImpl)(x, z, n);
}

void RoundToBFloats(const float* x, float* z, int64_t n) {
  HWY_DYNAMIC_DISPATCH(RoundToBFloatsImpl)(x, z, n);
}

void CompareInts(ScalarFunction function, const IntArgument* x, float* z,
                 int64_t n) {
  const bool known = HWY_DYNAMIC_DISPATCH(CompareIntsImpl)(function, x, z, n);
  MTF_CHECK(known) << InfoOf(function).text << " is not a comparison";
}

}  // namespace mtf::cpu
#endif  // HWY_ONCE
