// SPDX-License-Identifier: Apache-2.0
//
// What a step of many equal blocks holds at most, from the programs of two and
// of four of them (planning/search/search_layouts.h).
#ifndef PLANNING_SEARCH_SEARCH_MEMORY_H_
#define PLANNING_SEARCH_SEARCH_MEMORY_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "lowering/passes/plan_buffers.h"
#include "lowering/program/program.h"

namespace mtf::internal {

// A program instruction by instruction.
struct HeldBytes {
  // What stands there, in whichever block: two instructions that do the same in
  // two blocks have one key.
  std::vector<uint64_t> keys;
  // Bytes of the arena that are in use while it runs.
  std::vector<int64_t> bytes;
  // Instructions whose number or place need not go with the blocks: sums that
  // go together in calls of so many bytes, what waits for collectives, and what
  // is made of parameters ahead.
  std::vector<bool> floats;
};

// Of a program with a plan for its memory, made for `groups`.
HeldBytes HeldAlong(const Program& program,
                    absl::Span<const FusedGroup> groups);

// Pairs of places in the two: `high` is `low` with parts put in, and each place
// of `low` meets the one in `high` that is as far from the first block, and the
// one that is as far from the last, where the part put in repeats what is
// beside it. None where `high` is not that.
std::vector<std::pair<int, int>> MatchPlaces(const std::vector<uint64_t>& low,
                                             const std::vector<uint64_t>& high);

// The most bytes that are in use at once at `place` on the line through the
// programs, 0 the first and 1 the second. What is held at a place that is so
// far from the first block, or from the last, grows by the same with every
// block, so each place has its line, and the highest of them counts: what the
// whole program holds, to the byte, where its parts repeat as they do here.
// Where the second program is not the first with parts put in, the estimate is
// the lower one of the line of the peaks and of the places that do match.
//
//   MostHeld(HeldAlong(two, {}), HeldAlong(four, {}), 47)  // of 96 blocks
int64_t MostHeld(const HeldBytes& low, const HeldBytes& high, double place);

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_SEARCH_MEMORY_H_
