// SPDX-License-Identifier: Apache-2.0
#include "backends/communicators/wait_options.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <mutex>

#include "absl/strings/numbers.h"

namespace mtf {
namespace {

// About the latency of a message between two cores. Spinning longer gains
// little on an idle machine and costs ten times as much on a busy one.
constexpr int kSpins = 100;

// If each rank has its own core it may poll for some milliseconds; waking up
// from sleep takes a tenth of a millisecond.
constexpr int kYieldsOnOwnCore = 20000;

constexpr double kTimeoutSeconds = 600;

// Negative: not set.
std::atomic<double> set_timeout{-1};

double TimeoutOfEnvironment() {
  const char* text = std::getenv("MTF_COLLECTIVE_TIMEOUT");
  double seconds = 0;
  if (text == nullptr) return kTimeoutSeconds;
  if (absl::SimpleAtod(text, &seconds) && std::isfinite(seconds) &&
      seconds >= 0) {
    return seconds;
  }
  static std::once_flag reported;
  std::call_once(reported, [&] {
    std::cerr << "MTF_COLLECTIVE_TIMEOUT \"" << text
              << "\" is not a number of seconds; using " << kTimeoutSeconds
              << std::endl;
  });
  return kTimeoutSeconds;
}

}  // namespace

WaitPolicy WaitOptions(int local_ranks, int cores) {
  WaitPolicy policy;
  if (local_ranks <= cores) {
    policy.spins = kSpins;
    policy.yields = kYieldsOnOwnCore;
  }
  policy.timeout_seconds = CollectiveTimeout();
  return policy;
}

double CollectiveTimeout() {
  const double set = set_timeout.load();
  return set >= 0 ? set : TimeoutOfEnvironment();
}

void SetCollectiveTimeout(double seconds) { set_timeout = seconds; }

}  // namespace mtf
