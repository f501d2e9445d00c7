// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_RESHAPE_RUNS_H_
#define BACKENDS_CPU_RESHAPE_RUNS_H_

#include <cstdint>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/strided_copy.h"

namespace mtf::cpu {

// The boxes of elements that a reshape copies on one rank.
struct ReshapeRuns {
  struct Box {
    int64_t from = 0, to = 0;  // first elements
    std::vector<StridedCopy::Loop> loops;
  };
  std::vector<Box> boxes;
  bool complete = true;  // whether the boxes cover the result; the rest is zero
};

// Finds the local elements of `from` and `to` that have the same global
// row-major index, counted by the true sizes. If both have the same sizes,
// extents and offsets apart from dimensions of size 1, all elements correspond,
// padding included.
ReshapeRuns FindReshapeRuns(const BoundValue& from, const BoundValue& to);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_RESHAPE_RUNS_H_
