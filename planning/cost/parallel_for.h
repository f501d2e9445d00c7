// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_COST_PARALLEL_FOR_H_
#define PLANNING_COST_PARALLEL_FOR_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace mtf::internal {

// Calls run(i) for each i below `count`, concurrently from several threads if
// the host has cores for them. For pure work that takes milliseconds. Each call
// writes its own elements, so the result does not depend on threads. Leaves
// `busy` cores free.
inline void ParallelFor(size_t count, const std::function<void(size_t)>& run,
                        size_t busy = 0) {
  constexpr size_t kMostThreads = 16;
  const size_t threads = std::min(
      {count, kMostThreads,
       std::max<size_t>(1 + busy, std::thread::hardware_concurrency()) - busy});
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) run(i);
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
}

}  // namespace mtf::internal

#endif  // PLANNING_COST_PARALLEL_FOR_H_
