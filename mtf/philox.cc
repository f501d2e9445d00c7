// SPDX-License-Identifier: Apache-2.0
//
// Compiled with -ffp-contract=off (CMakeLists.txt): fused multiply-adds round
// differently and would give different bits.
#include "mtf/philox.h"

#include <bit>
#include <cmath>

namespace mtf {

float NormalFromWords(uint32_t w0, uint32_t w1) {
  using D = double;
  using u32 = uint32_t;
  const auto BitWidth = [](u32 x) {
    return static_cast<u32>(std::bit_width(x));
  };
  const auto Sqrt = [](D x) { return std::sqrt(x); };
#define STEP(type, name, value) const type name = value;
  MTF_NORMAL_STEPS(STEP)
#undef STEP
  return static_cast<float>(normal);
}

}  // namespace mtf
