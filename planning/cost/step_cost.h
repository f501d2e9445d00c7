// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_COST_STEP_COST_H_
#define PLANNING_COST_STEP_COST_H_

#include <cstdint>
#include <string>

#include "lowering/program/program.h"

namespace mtf {

// The cost of a step on each rank.
struct StepCost {
  double seconds = 0;
  int64_t wire_bytes = 0;    // bytes sent
  int64_t memory_bytes = 0;  // of the device: variables and arena
};

// The memory of a rank at the peak of the step, by purpose.
struct MemoryParts {
  int64_t parameters = 0, optimizer_state = 0, state = 0;  // variables
  int64_t gradients = 0;
  int64_t copies =
      0;  // of variables: gathered, cast, or updated but not written
  int64_t activations = 0;
  int64_t unused = 0;  // alignment and gaps
  // Offloaded variables, in host memory: not part of total().
  int64_t host = 0;

  int64_t total() const {
    return parameters + optimizer_state + state + gradients + copies +
           activations + unused;
  }
};
inline constexpr int64_t MemoryParts::*kMemoryParts[] = {
    &MemoryParts::parameters, &MemoryParts::optimizer_state,
    &MemoryParts::state,      &MemoryParts::gradients,
    &MemoryParts::copies,     &MemoryParts::activations,
    &MemoryParts::unused};

// The part that a variable belongs to: that of its kind, or host memory.
inline int64_t& PartOf(const ProgramVariable& variable, MemoryParts& parts) {
  if (variable.offloaded) return parts.host;
  switch (variable.section) {
    case RuleSection::kOptimizer:
      return parts.optimizer_state;
    case RuleSection::kDefault:
      return parts.state;
    default:
      return parts.parameters;
  }
}

// The cost of the step under a changed layout.
struct RuleChange {
  std::string edit;    // "drop d_ff:model", "d_ff:data instead of d_ff:model"
  std::string layout;  // all rules after it, as --layout takes them
  StepCost cost;       // of the step with the change
  MemoryParts memory;  // cost.memory_bytes by purpose
  // Whether the cost was scaled up from too few layers, because the graph is
  // too large to be lowered with enough of them for each change.
  bool estimated = false;
};

}  // namespace mtf

#endif  // PLANNING_COST_STEP_COST_H_
