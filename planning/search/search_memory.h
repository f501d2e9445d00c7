// SPDX-License-Identifier: Apache-2.0
//
// Extrapolates the peak memory of a step with many equal layers from programs
// with two and with four of them (planning/search/search_layouts.h).
#ifndef PLANNING_SEARCH_SEARCH_MEMORY_H_
#define PLANNING_SEARCH_SEARCH_MEMORY_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "lowering/program/program.h"

namespace mtf::internal {

// The live bytes at each instruction of a program.
struct LiveBytes {
  // Identifies what the instruction does: equal instructions of two layers have
  // the same key.
  std::vector<uint64_t> keys;
  // Bytes of the arena in use while the instruction runs.
  std::vector<int64_t> bytes;
  // Whether the number or the position of the instruction does not follow the
  // layers: bucketed reductions, waits, and values that are derived from
  // parameters ahead of their use.
  std::vector<bool> is_unaligned;
};

// `program`: with buffers planned.
LiveBytes LiveBytesAlong(const Program& program);

// Aligns two programs by their keys, where `high` is `low` with layers
// inserted. Returns pairs of instruction indices: each index in `low` with the
// one in `high` that is equally far from the first layer and, where the
// insertion repeats its neighbour, also with the one equally far from the last
// layer. Empty if `high` does not have that form.
std::vector<std::pair<int, int>> AlignPrograms(
    const std::vector<uint64_t>& low, const std::vector<uint64_t>& high);

// Extrapolates the peak of the arena to `position` on the line through the two
// programs, where 0 is the first and 1 the second. The bytes in use at a fixed
// distance from the first or the last layer grow linearly with the number of
// layers, so each aligned instruction has its own line, and the peak is the
// highest of them: exact to the byte if the program with all layers repeats as
// these do. If the programs do not align, the result is the lower of two
// estimates: the line through both peaks, and the highest line of the
// instructions that do align.
//
//   // The peak of 96 layers: 2 + 47 * (4 - 2).
//   PeakLiveBytes(LiveBytesAlong(two), LiveBytesAlong(four), 47)
int64_t PeakLiveBytes(const LiveBytes& low, const LiveBytes& high,
                      double position);

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_SEARCH_MEMORY_H_
