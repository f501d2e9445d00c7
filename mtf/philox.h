// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_PHILOX_H_
#define MTF_PHILOX_H_

#include <cstdint>

#include "Random123/philox.h"

namespace mtf {

// The four 32-bit words of Philox4x32-10 (Salmon, Moraes, Dror and Shaw, 2011)
// for one element of one stream: the key is (seed, stream), the counter (64-bit
// global element index, step, 0). All layouts, ranks and backends draw random
// numbers by this function, so they draw the same numbers.
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

// A number in [0, 1): the top 24 bits of `word`, which a float represents
// exactly.
inline float UniformFromWord(uint32_t word) {
  return static_cast<float>(word >> 8) * (1.0f / 16777216.0f);
}

// A normal number of mean 0 and variance 1 from the words w0 and w1, by the
// method of Box and Muller (1958):
//
//   sqrt(-2 log(1 - u0)) cos(2 pi u1),   u0 and u1 uniform from the words
//
// Every machine must draw the same bits, but logf and cosf differ between
// libraries. So the formula uses only additions, multiplications, divisions and
// square roots of doubles, whose rounding IEEE 754 defines. It is written once,
// as a list of steps that the host compiles and that GPU kernels include as
// text: STEP(type, name, value), where D is a double and NormalFromWords
// defines the primitives. The series are accurate to 1e-13.
// clang-format off
#define MTF_NORMAL_STEPS(STEP)                                                 \
  /* log(1 - u0), where 1 - u0 = k / 2^24 = m 2^(e - 24), m about 1 */         \
  STEP(u32, k, 16777216u - (w0 >> 8))                                          \
  STEP(u32, floor_e, BitWidth(k) - 1u)                                         \
  STEP(u32, up, D(k) / D(1u << floor_e) > D(1.4142135623730951))               \
  STEP(u32, e, floor_e + up)                                                   \
  STEP(D, m, D(k) / D(1u << e))                                                \
  STEP(D, s, (m - D(1.0)) / (m + D(1.0)))                                      \
  STEP(D, ss, s * s)                                                           \
  STEP(D, log_m, D(2.0) * s * (D(1.0) + ss * (D(1.0 / 3) + ss * (D(1.0 / 5) +  \
       ss * (D(1.0 / 7) + ss * (D(1.0 / 9) + ss * (D(1.0 / 11) +               \
       ss * (D(1.0 / 13) + ss * D(1.0 / 15)))))))))                            \
  STEP(D, log_1_u0, log_m + (D(e) - D(24.0)) * D(0.6931471805599453))          \
  STEP(D, radius, Sqrt(D(-2.0) * log_1_u0))                                    \
  /* 2 pi u1 = quarters * pi / 2 + t, where |t| <= pi / 4 */                   \
  STEP(u32, turn, w1 >> 8)                                                     \
  STEP(u32, quarters, (turn + 2097152u) >> 22)                                 \
  STEP(D, t, (D(turn) - D(quarters << 22)) * D(3.7450702829239286e-07))        \
  STEP(D, tt, t * t)                                                           \
  STEP(D, cosine, D(1.0) - tt * (D(1.0 / 2) - tt * (D(1.0 / 24) -              \
       tt * (D(1.0 / 720) - tt * (D(1.0 / 40320) - tt * (D(1.0 / 3628800) -    \
       tt * D(1.0 / 479001600)))))))                                           \
  STEP(D, sine, t * (D(1.0) - tt * (D(1.0 / 6) - tt * (D(1.0 / 120) -          \
       tt * (D(1.0 / 5040) - tt * (D(1.0 / 362880) -                           \
       tt * D(1.0 / 39916800)))))))                                            \
  STEP(D, wave, (quarters & 1u) != 0 ? sine : cosine)                          \
  STEP(D, normal, radius * (((quarters + 1u) & 2u) != 0 ? -wave : wave))
// clang-format on

float NormalFromWords(uint32_t w0, uint32_t w1);
inline float NormalFromWords(const PhiloxWords& words) {
  return NormalFromWords(words.word[0], words.word[1]);
}

}  // namespace mtf

#endif  // MTF_PHILOX_H_
