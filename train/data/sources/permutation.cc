// SPDX-License-Identifier: Apache-2.0
#include "train/data/sources/permutation.h"

#include "mtf/philox.h"

namespace mtf::train {
namespace {

// Far from the streams of random numbers of a graph, which count from 0.
constexpr uint32_t kPermutationStream = 0xda7a5ea;
constexpr int kFeistelRounds = 8;

uint64_t LowMask(int bits) { return (uint64_t{1} << bits) - 1; }

}  // namespace

Permutation::Permutation(int64_t size, uint32_t seed, uint32_t epoch)
    : size_(static_cast<uint64_t>(size)), seed_(seed), epoch_(epoch) {
  int bits = 2;
  while ((uint64_t{1} << bits) < size_) ++bits;
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
}

// The halves of `value` take turns: one is changed by a function of the other,
// so each round can be undone, and the whole is a permutation.
uint64_t Permutation::Encrypt(uint64_t value) const {
  uint64_t low = value & LowMask(low_bits_), high = value >> low_bits_;
  for (uint64_t round = 0; round < kFeistelRounds; ++round) {
    uint64_t& changed = round % 2 == 0 ? low : high;
    const uint64_t other = round % 2 == 0 ? high : low;
    const PhiloxWords words =
        PhiloxAt(seed_, kPermutationStream, epoch_, round << 32 | other);
    changed ^= words.word[0] & LowMask(round % 2 == 0 ? low_bits_ : high_bits_);
  }
  return high << low_bits_ | low;
}

int64_t Permutation::At(int64_t index) const {
  uint64_t value = Encrypt(static_cast<uint64_t>(index));
  while (value >= size_) value = Encrypt(value);
  return static_cast<int64_t>(value);
}

}  // namespace mtf::train
