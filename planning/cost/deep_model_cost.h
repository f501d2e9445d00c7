// SPDX-License-Identifier: Apache-2.0
//
// What a step of many equal layers costs, told from its program with few of
// them.
#ifndef PLANNING_COST_DEEP_MODEL_COST_H_
#define PLANNING_COST_DEEP_MODEL_COST_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "lowering/passes/plan_for_machine.h"
#include "lowering/program/program.h"
#include "planning/cost/layer_periodicity.h"
#include "planning/cost/step_cost.h"
#include "planning/machine/machine.h"

namespace mtf::internal {

struct DeepCost {
  StepCost cost;
  MemoryParts memory;
  // By instruction, what it and all that it stands for send.
  std::vector<int64_t> wire_bytes;
};

struct DeepEstimate {
  // The repeats after which the program repeats itself, 0 where it takes more
  // of them to see that (LayerPeriodicity::FindPeriod).
  int period = 0;
  LayerPeriodicity::Guess guess;  // without a period
  // Nothing without a period, or where it does not divide what is left out.
  std::optional<DeepCost> cost;
};

// Walks `program`, which is planned and was lowered with `few` layers, as the
// program of all layers would run: its repeated stretches again for what is
// left out. Bytes sent are then those of all layers, and so are time and the
// memory of tensors, up to how sums of seconds are rounded; what is unused
// between tensors is that of few layers.
//
//   const auto deep = CostOfAllLayers(program, machine, plan, few);
//   if (deep.cost) deep.cost->cost.seconds   // of all layers
DeepEstimate CostOfAllLayers(const Program& program, const Machine& machine,
                             const MachinePlan& plan, const FewLayers& few);

}  // namespace mtf::internal

#endif  // PLANNING_COST_DEEP_MODEL_COST_H_
