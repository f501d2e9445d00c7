// SPDX-License-Identifier: Apache-2.0
//
// The cost of a step of many equal layers from its program with few of them.
#ifndef PLANNING_COST_DEEP_MODEL_COST_H_
#define PLANNING_COST_DEEP_MODEL_COST_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "lowering/program/program.h"
#include "planning/cost/layer_periodicity.h"
#include "planning/cost/step_cost.h"
#include "planning/machine/machine.h"

namespace mtf::internal {

struct DeepCost {
  StepCost cost;
  MemoryParts memory;
  // By instruction: bytes sent by it and by the same instructions of left out
  // layers.
  std::vector<int64_t> wire_bytes;
};

struct DeepEstimate {
  // The period in repeats, or 0 if more layers are needed to find it
  // (LayerPeriodicity::FindPeriod).
  int period = 0;
  LayerPeriodicity::Guess guess;  // if period is 0
  // Empty if there is no period, or it does not divide the left out repeats.
  std::optional<DeepCost> cost;
};

// Computes the cost of all layers from `program`, which was lowered with `few`
// layers and planned. Replays it and runs the periodic segments once more for
// each period that is left out. Bytes sent are exact, and time and the memory
// of tensors are exact up to rounding; unused memory between tensors is that of
// few layers.
//
//   const auto deep = CostOfAllLayers(program, machine, few);
//   if (deep.cost) deep.cost->cost.seconds   // of all layers
DeepEstimate CostOfAllLayers(const Program& program, const Machine& machine,
                             const FewLayers& few);

}  // namespace mtf::internal

#endif  // PLANNING_COST_DEEP_MODEL_COST_H_
