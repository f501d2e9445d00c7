// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_GROUP_BARRIER_H_
#define BACKENDS_COMMUNICATORS_GROUP_BARRIER_H_

#include <atomic>
#include <cstdint>

namespace mtf {

// How a rank waits for others.
struct WaitPolicy {
  // Looks at the barrier this often before it yields its core. With more ranks
  // than cores that must be 0: the rank waited for needs the core.
  int spins = 0;
  // Then it yields this often, and sleeps between looks from then on: such a
  // wait is a long one (an uneven step, a checkpoint being written).
  int yields = 1000;
  // Nonzero when some rank has failed; may be null.
  const std::atomic<bool>* abort = nullptr;
  // Gives up after this long; 0 waits for ever.
  double timeout_seconds = 0;
};

// A barrier in memory that threads or processes share; zeroed memory is a
// fresh one. Arrivals, rounds and failure share one word, so that a barrier is
// passed by everyone or by no one: a rank that gives up breaks the round for
// all, and only if the round is not complete yet. The others then never wait
// for it, nor miss what it had still agreed to.
class GroupBarrier {
 public:
  enum class Outcome { kPassed, kBroken, kTimedOut };

  // Waits until `size` ranks have arrived. Memory written before is visible
  // after to all of them.
  Outcome Arrive(int size, const WaitPolicy& policy);

  // Makes it fresh again. Nobody may be waiting.
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
