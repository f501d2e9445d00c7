// SPDX-License-Identifier: Apache-2.0
#include "backends/communicators/group_barrier.h"

#include <sched.h>
#include <time.h>

#include <chrono>

#include "mtf/check.h"

namespace mtf {
namespace {

constexpr uint64_t kBroken = uint64_t{1} << 63;
constexpr int kRoundShift = 16;
constexpr uint64_t kArrivals = (uint64_t{1} << kRoundShift) - 1;

// A long wait checks whether it is in vain every so many polls.
constexpr int64_t kLooksPerCheck = 256;

uint64_t Round(uint64_t word) { return (word & ~kBroken) >> kRoundShift; }

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void Sleep() {
  const timespec duration = {.tv_sec = 0, .tv_nsec = 20'000};
  nanosleep(&duration, nullptr);
}

}  // namespace

bool GroupBarrier::Break(uint64_t word) {
  return word_.compare_exchange_strong(word, word | kBroken,
                                       std::memory_order_acq_rel,
                                       std::memory_order_acquire);
}

GroupBarrier::Outcome GroupBarrier::Arrive(
    int size, const WaitPolicy& policy, absl::FunctionRef<bool()> is_hopeless) {
  MTF_CHECK_LE(static_cast<uint64_t>(size), kArrivals);
  if (word_.load(std::memory_order_acquire) & kBroken) return Outcome::kBroken;
  const uint64_t before = word_.fetch_add(1, std::memory_order_acq_rel);
  if (before & kBroken) return Outcome::kBroken;
  const uint64_t round = Round(before);
  if ((before & kArrivals) + 1 == static_cast<uint64_t>(size)) {
    // Only a rank that breaks the round can have changed the word meanwhile.
    uint64_t expected = before + 1;
    return word_.compare_exchange_strong(expected, (round + 1) << kRoundShift,
                                         std::memory_order_acq_rel,
                                         std::memory_order_acquire)
               ? Outcome::kPassed
               : Outcome::kBroken;
  }
  using Clock = std::chrono::steady_clock;
  Clock::time_point deadline{};
  for (int64_t looks = 0;; ++looks) {
    const uint64_t word = word_.load(std::memory_order_acquire);
    if (Round(word) != round) return Outcome::kPassed;
    if (word & kBroken) return Outcome::kBroken;
    if (policy.abort != nullptr &&
        policy.abort->load(std::memory_order_acquire)) {
      if (Break(word)) return Outcome::kBroken;
      continue;
    }
    if (looks < policy.spins) {
      Pause();
      continue;
    }
    // On a busy machine a yield may take milliseconds.
    const bool sleeps = looks >= policy.spins + policy.yields;
    if ((sleeps || looks % kLooksPerCheck == 0) && is_hopeless() &&
        Break(word)) {
      return Outcome::kHopeless;
    }
    if (!sleeps) {
      sched_yield();
    } else {
      Sleep();
      if (policy.timeout_seconds <= 0) continue;
      const Clock::time_point now = Clock::now();
      if (deadline == Clock::time_point{}) {
        deadline =
            now + std::chrono::duration_cast<Clock::duration>(
                      std::chrono::duration<double>(policy.timeout_seconds));
      } else if (now > deadline && Break(word)) {
        return Outcome::kTimedOut;
      }
    }
  }
}

}  // namespace mtf
