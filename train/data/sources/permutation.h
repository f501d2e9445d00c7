// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_SOURCES_PERMUTATION_H_
#define TRAIN_DATA_SOURCES_PERMUTATION_H_

#include <cstdint>

namespace mtf::train {

// A pseudo-random permutation of 0 .. size - 1 that finds any element in
// constant time and memory: a Feistel network whose rounds are words of Philox
// with the key (seed, epoch), on the smallest power of two that holds `size`.
// Results outside of the range are permuted again (cycle walking, Black and
// Rogaway, 2002), twice at most on average.
//
//   const Permutation order(records, seed, epoch);
//   order.At(0);  // the first record of the epoch
class Permutation {
 public:
  // `size` is at least 1 and at most 2^62.
  Permutation(int64_t size, uint32_t seed, uint32_t epoch);

  // 0 <= index < size.
  int64_t At(int64_t index) const;

 private:
  uint64_t Encrypt(uint64_t value) const;

  uint64_t size_;
  uint32_t seed_, epoch_;
  int low_bits_, high_bits_;
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_SOURCES_PERMUTATION_H_
