// SPDX-License-Identifier: Apache-2.0
//
// Where a rank is in what it runs. Each rank keeps its place in a word that the
// others may read, so that one that waits too long can say for whom.
#ifndef BACKENDS_RANK_POSITION_H_
#define BACKENDS_RANK_POSITION_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace mtf {

// Before, in or behind a collective of a program.
struct RankPosition {
  static constexpr int kMostPrograms = 0x3fff;

  int program = 0;   // of the communicator, counted from 1; 0: none yet
  int64_t step = 0;  // modulo 2^24
  // In the order of the program, counted from 1, as in ListCollectives; 0: the
  // step has begun, but none of its collectives.
  int collective = 0;
  bool inside = false;  // or behind it

  uint64_t Pack() const {
    return (static_cast<uint64_t>(step) & 0xffffff) << 40 |
           (static_cast<uint64_t>(program) & kMostPrograms) << 26 |
           (static_cast<uint64_t>(collective) & 0x1ffffff) << 1 |
           static_cast<uint64_t>(inside);
  }
  static RankPosition Unpack(uint64_t word) {
    return {.program = static_cast<int>(word >> 26 & kMostPrograms),
            .step = static_cast<int64_t>(word >> 40),
            .collective = static_cast<int>(word >> 1 & 0x1ffffff),
            .inside = (word & 1) != 0};
  }
  friend bool operator==(const RankPosition&, const RankPosition&) = default;
};

// The place of one rank, in memory that is its own or shared. Zeroed memory is
// a rank that has not begun.
struct alignas(64) RankPositionSlot {
  std::atomic<uint64_t> word{0};
};
static_assert(std::atomic<uint64_t>::is_always_lock_free,
              "a lock would not work between processes");

// "rank 3", "ranks 0-2, 5", for ranks in ascending order; long lists are cut.
std::string RanksText(absl::Span<const int64_t> ranks);

}  // namespace mtf

#endif  // BACKENDS_RANK_POSITION_H_
