// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_COST_STEP_COST_H_
#define PLANNING_COST_STEP_COST_H_

#include <cstdint>
#include <string>

namespace mtf {

// What a step costs each rank.
struct StepCost {
  double seconds = 0;
  int64_t wire_bytes = 0;    // sent
  int64_t memory_bytes = 0;  // variables and arena
};

// What the memory of a rank is taken by when the step needs most of it.
struct MemoryParts {
  int64_t parameters = 0, optimizer_state = 0;  // at rest
  int64_t gradients = 0;
  int64_t copies = 0;  // of variables: gathered, cast, or not yet written
  int64_t activations = 0;
  int64_t unused = 0;  // between tensors

  int64_t total() const {
    return parameters + optimizer_state + gradients + copies + activations +
           unused;
  }
};
inline constexpr int64_t MemoryParts::*kMemoryParts[] = {
    &MemoryParts::parameters,  &MemoryParts::optimizer_state,
    &MemoryParts::gradients,   &MemoryParts::copies,
    &MemoryParts::activations, &MemoryParts::unused};

// A change of the rules that was lowered and estimated too.
struct RuleChange {
  std::string edit;    // "drop d_ff:model", "d_ff:data instead of d_ff:model"
  std::string layout;  // all rules after it, as --layout takes them
  StepCost cost;       // with it
  MemoryParts memory;  // cost.memory_bytes taken apart
  // Whether the cost was scaled up from layers too few to tell it: of a graph
  // too large to be lowered with all of them for each change.
  bool estimated = false;
};

}  // namespace mtf

#endif  // PLANNING_COST_STEP_COST_H_
