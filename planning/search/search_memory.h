// SPDX-License-Identifier: Apache-2.0
//
// Extrapolates the peak memory of a step with many equal blocks from the
// programs of two and of four of them (planning/search/search_layouts.h).
#ifndef PLANNING_SEARCH_SEARCH_MEMORY_H_
#define PLANNING_SEARCH_SEARCH_MEMORY_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "lowering/passes/plan_buffers.h"
#include "lowering/program/program.h"

namespace mtf::internal {

// The memory in use along a program, by instruction.
struct HeldBytes {
  // What the instruction does, whichever block it is in: equal instructions of
  // two blocks have one key.
  std::vector<uint64_t> keys;
  // Bytes of the arena in use while the instruction runs.
  std::vector<int64_t> bytes;
  // Instructions whose number or position does not follow the blocks: bucketed
  // reductions, waits, and values derived from parameters ahead of their use.
  std::vector<bool> floats;
};

// Of a program whose buffers were planned for `groups`.
HeldBytes HeldAlong(const Program& program,
                    absl::Span<const FusedGroup> groups);

// Aligns two programs, where `high` is `low` with blocks inserted. Returns
// pairs of positions: each position of `low` with the one in `high` that is
// equally far from the first block and, where the insertion repeats its
// neighbour, with the one equally far from the last block. Empty if `high` is
// not of that form.
std::vector<std::pair<int, int>> MatchPositions(
    const std::vector<uint64_t>& low, const std::vector<uint64_t>& high);

// Extrapolates the peak of the arena to `place` on the line through the two
// programs, where 0 is the first and 1 the second. The bytes in use at a fixed
// distance from the first or the last block grow linearly with the number of
// blocks, so each aligned position has its own line, and the peak is the
// highest of them: exact to the byte if the program of all blocks repeats as
// these do. If the programs do not align, the result is the lower of two
// estimates: the line through both peaks, and the highest line of the positions
// that do align.
//
//   MostHeld(HeldAlong(two, {}), HeldAlong(four, {}), 47)  // of 96 blocks
int64_t MostHeld(const HeldBytes& low, const HeldBytes& high, double place);

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_SEARCH_MEMORY_H_
