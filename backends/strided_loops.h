// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_STRIDED_LOOPS_H_
#define BACKENDS_STRIDED_LOOPS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace mtf {

// A loop of a copy between two strided layouts.
struct StridedLoop {
  int64_t extent = 1;
  int64_t from = 0, to = 0;  // strides in elements
  friend bool operator==(const StridedLoop&, const StridedLoop&) = default;
};

// Removes loops of extent 1, orders loops by the strides written, largest
// first, and merges neighbours where the strides of both sides allow it.
inline std::vector<StridedLoop> FoldedLoops(std::vector<StridedLoop> loops) {
  std::stable_sort(
      loops.begin(), loops.end(),
      [](const StridedLoop& a, const StridedLoop& b) { return a.to > b.to; });
  std::vector<StridedLoop> folded;
  for (const StridedLoop& loop : loops) {
    if (loop.extent == 1) continue;
    if (!folded.empty() && folded.back().from == loop.from * loop.extent &&
        folded.back().to == loop.to * loop.extent) {
      folded.back() = {folded.back().extent * loop.extent, loop.from, loop.to};
    } else {
      folded.push_back(loop);
    }
  }
  return folded;
}

}  // namespace mtf

#endif  // BACKENDS_STRIDED_LOOPS_H_
