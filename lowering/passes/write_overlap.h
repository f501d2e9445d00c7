// SPDX-License-Identifier: Apache-2.0
//
// Rewrites a program with its collectives at the positions that
// overlap_collectives chose.
#ifndef LOWERING_PASSES_WRITE_OVERLAP_H_
#define LOWERING_PASSES_WRITE_OVERLAP_H_

#include <tuple>
#include <vector>

#include "lowering/program/program.h"

namespace mtf {

// A collective and its new position. Positions refer to the program before the
// rewrite: position k is directly before instruction k, and the number of
// instructions is the end.
struct OverlappedCollective {
  int instruction = -1;
  int first_result = -1;
  int origin = -1;
  int start = -1, wait = -1;  // positions; start -1: keeps its position
  bool gathers_parameter = false;
  bool asynchronous = false;         // otherwise without a wait
  bool waits_before_starts = false;  // of other collectives at `wait`
  std::vector<int> views;  // instructions that are views of its results
};

// Sort key of collectives that start at one position: by their wait, then in
// program order.
std::tuple<int, int, int> StartOrder(const OverlappedCollective& collective);

// Rewrites `program`. `producer`: by value, the instruction that produces it or
// -1; `is_view`, `moves_with_gather`: by instruction, whether it is a view and
// whether it is written directly before its first reader.
void WriteOverlap(const std::vector<OverlappedCollective>& collectives,
                  const std::vector<int>& producer,
                  const std::vector<bool>& is_view,
                  const std::vector<bool>& moves_with_gather, Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_WRITE_OVERLAP_H_
