// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_GROUP_BARRIER_H_
#define BACKENDS_COMMUNICATORS_GROUP_BARRIER_H_

#include <atomic>
#include <cstdint>

#include "absl/functional/function_ref.h"

namespace mtf {

// How a rank waits for others.
struct WaitPolicy {
  // Polls of the barrier before the rank yields its core. Must be 0 with more
  // ranks than cores, where the awaited rank needs the core.
  int spins = 0;
  // Polls with a yield in between. After these the rank sleeps between polls:
  // the wait is a long one (an uneven step, a checkpoint being written).
  int yields = 1000;
  // True once some rank has failed; may be null.
  const std::atomic<bool>* abort = nullptr;
  // Timeout of a wait; 0 waits forever.
  double timeout_seconds = 0;
};

// A barrier in memory shared by threads or processes; zeroed memory is a fresh
// barrier. Arrivals, rounds and failure share one word, so that either every
// rank passes a round or none does: a rank that times out breaks the round for
// all, but only while the round is incomplete.
class GroupBarrier {
 public:
  enum class Outcome { kPassed, kBroken, kTimedOut, kHopeless };

  // Waits until `size` ranks have arrived. What each wrote before the call is
  // visible to all of them afterwards. Long waits call `is_hopeless`, which
  // returns true if a missing rank will not arrive.
  Outcome Arrive(int size, const WaitPolicy& policy,
                 absl::FunctionRef<bool()> is_hopeless);
  Outcome Arrive(int size, const WaitPolicy& policy) {
    return Arrive(size, policy, [] { return false; });
  }

  // Returns to the initial state. No rank may be waiting.
  void Reset() { word_.store(0, std::memory_order_release); }

 private:
  // Breaks the round seen in `word` unless it completes first.
  bool Break(uint64_t word);

  // Bits 0 to 15 count arrivals, 16 to 62 rounds; bit 63 is "broken".
  std::atomic<uint64_t> word_{0};
};
static_assert(std::atomic<uint64_t>::is_always_lock_free,
              "a lock would not work between processes");

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_GROUP_BARRIER_H_
