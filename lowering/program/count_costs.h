// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_COUNT_COSTS_H_
#define LOWERING_PROGRAM_COUNT_COSTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "layouts/reshard_path.h"
#include "lowering/program/program.h"

namespace mtf {

// One collective of a program and its cause.
struct CollectiveCost {
  int instruction = 0;  // place in Program::instructions
  CollectiveKind kind;
  AxisList axes;
  int64_t group_size = 1;
  int64_t bytes = 0;  // on the wire per rank and step (WireBytes)
  // What moves, "layer_0/ffn/einsum_1", or the variable that it becomes.
  std::string tensor;
  std::string dimension;  // whose cut causes it, "d_ff"
  std::string rule;       // "d_ff:model"
  std::string rule_origin;
  std::string operation;  // the user's, "layer_0/ffn/einsum_1"
  CallSite site;          // the user's line
};

// Every collective of a lowered program in order, all_slice left out: it moves
// nothing.
std::vector<CollectiveCost> ListCollectives(const Program& program);

// Calls and bytes per kind and axes: what the communicator must count in one
// step, exactly.
std::map<std::pair<CollectiveKind, AxisSet>, std::pair<int64_t, int64_t>>
CountCollectives(const Program& program);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_COUNT_COSTS_H_
