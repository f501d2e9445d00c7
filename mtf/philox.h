// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_PHILOX_H_
#define MTF_PHILOX_H_

#include <cstdint>

#include "Random123/philox.h"

namespace mtf {

// The four 32-bit words of Philox4x32-10 (Salmon, Moraes, Dror and Shaw, 2011)
// that belong to one element of one stream: key (seed, stream), counter
// (global element index in 64 bits, step, 0). Every layout, rank and backend
// draws the number of an element from here, so they all draw the same.
struct PhiloxWords {
  uint32_t word[4];
};

inline PhiloxWords PhiloxAt(uint32_t seed, uint32_t stream, uint32_t step,
                            uint64_t element) {
  const r123::Philox4x32 philox;
  const r123::Philox4x32::ctr_type counter = {
      {static_cast<uint32_t>(element), static_cast<uint32_t>(element >> 32),
       step, 0}};
  const r123::Philox4x32::key_type key = {{seed, stream}};
  const r123::Philox4x32::ctr_type words = philox(counter, key);
  return {{words[0], words[1], words[2], words[3]}};
}

// [0, 1): the top 24 bits, exact in float.
inline float UniformFromWord(uint32_t word) {
  return static_cast<float>(word >> 8) * (1.0f / 16777216.0f);
}

}  // namespace mtf

#endif  // MTF_PHILOX_H_
