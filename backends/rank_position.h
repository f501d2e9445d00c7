// SPDX-License-Identifier: Apache-2.0
//
// The progress of a rank through its programs. Each rank publishes its position
// in a word that other ranks can read, so that a rank whose wait times out can
// report where the others are.
#ifndef BACKENDS_RANK_POSITION_H_
#define BACKENDS_RANK_POSITION_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace mtf {

// A position before, inside or after a collective of a program.
struct RankPosition {
  static constexpr int kMaxPrograms = 0x3fff;

  int program = 0;   // number from NumberProgram, from 1; 0: none yet
  int64_t step = 0;  // modulo 2^24
  // The last collective reached, in program order from 1 as in ListCollectives;
  // 0: the step has begun, but no collective yet.
  int collective = 0;
  bool inside = false;  // inside the collective, or already after it

  uint64_t Pack() const {
    return (static_cast<uint64_t>(step) & 0xffffff) << 40 |
           (static_cast<uint64_t>(program) & kMaxPrograms) << 26 |
           (static_cast<uint64_t>(collective) & 0x1ffffff) << 1 |
           static_cast<uint64_t>(inside);
  }
  static RankPosition Unpack(uint64_t word) {
    return {.program = static_cast<int>(word >> 26 & kMaxPrograms),
            .step = static_cast<int64_t>(word >> 40),
            .collective = static_cast<int>(word >> 1 & 0x1ffffff),
            .inside = (word & 1) != 0};
  }
  friend bool operator==(const RankPosition&, const RankPosition&) = default;
};

// Whether a rank still takes part in collectives.
enum class RankState : uint8_t {
  kRunning,
  kEnded,   // it has ended without an error and joins no more collectives,
            // except those in which all ranks agree on the outcome of the job
  kFailed,  // as kEnded, with an error, which it will report
  kExited,  // its process exits without an error and joins none at all
};

// Whether a rank in state `waiting` waits in vain for one in state `missing`.
inline bool WaitsInVain(RankState waiting, RankState missing) {
  return waiting == RankState::kRunning ? missing != RankState::kRunning
                                        : missing == RankState::kExited;
}

// Holds the position of one rank, in private or shared memory. Zeroed memory
// stands for a rank that has not started.
struct alignas(64) RankPositionSlot {
  std::atomic<uint64_t> word{0};
  // Written after the last collective of the rank. Ranks that wait for it in an
  // earlier one stop waiting.
  std::atomic<RankState> state{RankState::kRunning};
  // The calls of Communicator::SignIn that the rank has begun.
  std::atomic<uint32_t> sign_ins{0};
};
static_assert(std::atomic<uint64_t>::is_always_lock_free &&
                  std::atomic<RankState>::is_always_lock_free,
              "a lock would not work between processes");

// "rank 3", "ranks 0-2, 5" for `ranks` in ascending order; long lists are
// abbreviated.
std::string RanksText(absl::Span<const int64_t> ranks);

}  // namespace mtf

#endif  // BACKENDS_RANK_POSITION_H_
