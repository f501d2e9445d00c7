// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_HALF_H_
#define MTF_HALF_H_

#include <bit>
#include <cstdint>

namespace mtf {

// The 16-bit float formats as bit patterns. Conversions from float round to
// nearest even. The two are distinct types so that functions can be overloaded.
struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

inline float ToFloat(BFloat16 h) {
  return std::bit_cast<float>(static_cast<uint32_t>(h.bits) << 16);
}

inline BFloat16 ToBFloat16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) {  // NaN: keep it a (quiet) NaN
    return {static_cast<uint16_t>((u >> 16) | 0x40u)};
  }
  return {static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

// IEEE binary16, by the compiler's _Float16, which rounds to nearest even.
inline float ToFloat(Float16 h) {
  return static_cast<float>(std::bit_cast<_Float16>(h.bits));
}

inline Float16 ToFloat16(float f) {
  return {std::bit_cast<uint16_t>(static_cast<_Float16>(f))};
}

}  // namespace mtf

#endif  // MTF_HALF_H_
