// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_RESHAPE_RUNS_H_
#define BACKENDS_CPU_RESHAPE_RUNS_H_

#include <cstdint>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/strided_copy.h"

namespace mtf::cpu {

// What a reshape copies on one rank.
struct ReshapeRuns {
  struct Box {
    int64_t from = 0, to = 0;  // first elements
    std::vector<StridedCopy::Loop> loops;
  };
  std::vector<Box> boxes;
  bool complete = true;  // no place of the result is left to be zero
};

// Finds which local elements of `from` and `to` have the same global row-major
// index by the true sizes. Where both have the same sizes, extents and offsets,
// but for dimensions of one place, all places correspond, padding too.
ReshapeRuns FindReshapeRuns(const BoundValue& from, const BoundValue& to);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_RESHAPE_RUNS_H_
