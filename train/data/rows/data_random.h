// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_ROWS_DATA_RANDOM_H_
#define TRAIN_DATA_ROWS_DATA_RANDOM_H_

#include <cstdint>

namespace mtf::train {

// The random numbers of one record: a sequence that depends only on the seed,
// the position of the record in its order, and the purpose `stream`.
class DataRandom {
 public:
  DataRandom(uint32_t seed, uint32_t stream, int64_t position)
      : seed_(seed), stream_(stream), position_(position) {}

  uint32_t Next();

  // A number of 0 .. bound - 1, each as likely as the others; 1 <= bound. By
  // multiplication, with rejection of the few products that would favour some
  // (Lemire, 2019).
  uint32_t Below(uint32_t bound);

 private:
  uint32_t seed_, stream_;
  int64_t position_;
  uint32_t block_ = 0;
  int used_ = 4;
  uint32_t words_[4] = {};
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_ROWS_DATA_RANDOM_H_
