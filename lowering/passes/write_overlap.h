// SPDX-License-Identifier: Apache-2.0
//
// Writes a program anew with its collectives where overlap_collectives has
// placed them.
#ifndef LOWERING_PASSES_WRITE_OVERLAP_H_
#define LOWERING_PASSES_WRITE_OVERLAP_H_

#include <tuple>
#include <vector>

#include "lowering/program/program.h"

namespace mtf {

// A collective and where it goes. Places are those of the program as it stands;
// "at place k" is in front of instruction k, and the place behind the last
// instruction is their number.
struct OverlappedCollective {
  int at = -1;  // its instruction
  int first_result = -1;
  int origin = -1;
  int start = -1, wait = -1;  // places; a start of -1 leaves it where it is
  bool gathers_parameter = false;
  bool asynchronous = false;    // waits for nothing if not
  bool first_of_place = false;  // its wait comes before what starts there
  std::vector<int> views;       // of its results
};

// What is needed first starts first.
std::tuple<int, int, int> StartOrder(const OverlappedCollective& collective);

// By value, who makes it (-1: nobody); by instruction, whether it is a view and
// whether it is written in front of its first reader.
void WriteOverlap(const std::vector<OverlappedCollective>& collectives,
                  const std::vector<int>& producer,
                  const std::vector<bool>& is_view,
                  const std::vector<bool>& moves_up, Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_WRITE_OVERLAP_H_
