// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_ROWS_DATA_RANDOM_H_
#define TRAIN_DATA_ROWS_DATA_RANDOM_H_

#include <cstdint>

#include "mtf/philox.h"

namespace mtf::train {

// The random numbers of one record: a sequence that depends only on the seed,
// the position of the record in its order, and the purpose `stream`.
class DataRandom {
 public:
  DataRandom(uint32_t seed, uint32_t stream, int64_t position)
      : seed_(seed), stream_(stream), position_(position) {}

  uint32_t Next() {
    if (used_ == 4) {
      words_ = PhiloxAt(seed_, stream_, block_++, position_);
      used_ = 0;
    }
    return words_.word[used_++];
  }

  // A number of 0 .. bound - 1, each as likely as the others; 1 <= bound. By
  // multiplication, with rejection of the few products that would favour some
  // (Lemire, 2019).
  uint32_t Below(uint32_t bound) {
    const uint32_t rejected = (0u - bound) % bound;
    while (true) {
      const uint64_t product = uint64_t{Next()} * bound;
      if (static_cast<uint32_t>(product) >= rejected) {
        return static_cast<uint32_t>(product >> 32);
      }
    }
  }

 private:
  uint32_t seed_, stream_;
  int64_t position_;
  uint32_t block_ = 0;
  int used_ = 4;
  PhiloxWords words_ = {};
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_ROWS_DATA_RANDOM_H_
