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

// One collective of a program, what it sends and why it is there.
struct CollectiveCost {
  int instruction = 0;  // index in Program::instructions
  CollectiveKind kind;
  // In mesh order, so that a group of ranks has one name. The order in the
  // instruction is that of the shards.
  AxisList axes;
  int64_t group_size = 1;
  int64_t bytes = 0;  // on the wire per rank and step (WireBytes)
  // The tensor that is sent, "layer_0/ffn/einsum_1", or the variable that it is
  // written to.
  std::string tensor;
  std::string dimension;  // whose sharding causes it, "d_ff"
  std::string rule;       // "d_ff:model"
  std::string rule_origin;
  std::string operation;  // the user's, "layer_0/ffn/einsum_1"
  CallSite site;          // the user's line
};

// The collectives of a program in order, without all_slice, which sends
// nothing.
std::vector<CollectiveCost> ListCollectives(const Program& program);

// Calls and bytes per kind and axes: exactly what a communicator counts in one
// step.
std::map<std::pair<CollectiveKind, AxisSet>, std::pair<int64_t, int64_t>>
CountCollectives(const Program& program);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_COUNT_COSTS_H_
