// SPDX-License-Identifier: Apache-2.0
//
// Compiled with -ffp-contract=off (CMakeLists.txt): a fused multiply-add would
// not round the product, and a fused map would differ from its maps.
#include "backends/cpu/function_chains.h"

#include "backends/cpu/highway_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/function_chains.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "backends/cpu/vector_functions-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mtf::cpu::HWY_NAMESPACE {
namespace {

// Combines each vector with the same element of `read`.
template <int kVectors, class Combine>
HWY_INLINE void EachOf(Vector (&x)[kVectors], const FloatArgumentReader& read,
                       int64_t begin, const Combine& combine) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(FloatTag()));
  for (int v = 0; v < kVectors; ++v) {
    x[v] = combine(x[v], read(begin + v * lanes).v);
  }
}

// Elements from `begin` on, `kVectors` vectors at a time, so that one look at a
// link serves many elements.
template <int kVectors>
HWY_INLINE void EvaluateTile(const FloatArgument& first,
                             absl::Span<const ChainLink> links, int64_t begin,
                             float* z) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const FloatArgumentReader read_first(first);
  Vector x[kVectors];
  for (int v = 0; v < kVectors; ++v) x[v] = read_first(begin + v * lanes).v;
  for (const ChainLink& link : links) {
    const FloatArgumentReader read(link.other);
    if (link.function == ScalarFunction::kAdd) {
      EachOf(x, read, begin,
             [](Vector a, Vector b) HWY_ATTR { return hn::Add(a, b); });
    } else if (link.function == ScalarFunction::kMultiply) {
      EachOf(x, read, begin,
             [](Vector a, Vector b) HWY_ATTR { return hn::Mul(a, b); });
    } else if (link.is_left) {
      EachOf(x, read, begin,
             [](Vector a, Vector b) HWY_ATTR { return hn::Sub(a, b); });
    } else {
      EachOf(x, read, begin,
             [](Vector a, Vector b) HWY_ATTR { return hn::Sub(b, a); });
    }
  }
  for (int v = 0; v < kVectors; ++v) hn::StoreU(x[v], d, z + begin + v * lanes);
}

void EvaluateFloatChainImpl(const FloatArgument& x,
                            absl::Span<const ChainLink> links, float* z,
                            int64_t n) {
  constexpr int kVectors = 8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(FloatTag()));
  int64_t i = 0;
  for (; i + kVectors * lanes <= n; i += kVectors * lanes) {
    EvaluateTile<kVectors>(x, links, i, z);
  }
  for (; i < n; i += lanes) EvaluateTile<1>(x, links, i, z);
}

}  // namespace
}  // namespace mtf::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtf::cpu {

HWY_EXPORT(EvaluateFloatChainImpl);

bool IsChainable(ScalarFunction function) {
  return function == ScalarFunction::kAdd ||
         function == ScalarFunction::kSubtract ||
         function == ScalarFunction::kMultiply;
}

void EvaluateFloatChain(const FloatArgument& x,
                        absl::Span<const ChainLink> links, float* z,
                        int64_t n) {
  HWY_DYNAMIC_DISPATCH(EvaluateFloatChainImpl)(x, links, z, n);
}

}  // namespace mtf::cpu
#endif  // HWY_ONCE
