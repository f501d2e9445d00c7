// SPDX-License-Identifier: Apache-2.0
#include "train/data/rows/data_random.h"

#include <algorithm>

#include "mtf/philox.h"

namespace mtf::train {

uint32_t DataRandom::Next() {
  if (used_ == 4) {
    const PhiloxWords words = PhiloxAt(seed_, stream_, block_++, position_);
    std::copy_n(words.word, 4, words_);
    used_ = 0;
  }
  return words_[used_++];
}

uint32_t DataRandom::Below(uint32_t bound) {
  const uint32_t rejected = (0u - bound) % bound;
  while (true) {
    const uint64_t product = uint64_t{Next()} * bound;
    if (static_cast<uint32_t>(product) >= rejected) {
      return static_cast<uint32_t>(product >> 32);
    }
  }
}

}  // namespace mtf::train
