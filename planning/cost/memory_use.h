// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_COST_MEMORY_USE_H_
#define PLANNING_COST_MEMORY_USE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lowering/passes/plan_for_machine.h"
#include "lowering/program/program.h"
#include "planning/cost/step_cost.h"

namespace mtf {

enum class MemoryKind : uint8_t {
  kParameter,
  kOptimizerState,
  // What parameters are updated by, from where it is made: summands, sums,
  // casts.
  kGradient,
  // What is made of one variable for its use, gathered from its shards or cast,
  // and what an update has made and not yet written to it.
  kCopy,
  kActivation,  // everything else
};
std::string MemoryKindName(MemoryKind kind);

struct ExplainedTensor {
  std::string name;
  MemoryKind kind = MemoryKind::kActivation;
  std::string type;   // "f32[batch:8/data, d_ff:32]"
  int64_t bytes = 0;  // on each rank
  std::string operation, site;
};

// Memory of each rank.
struct ExplainedMemory {
  int64_t total = 0;  // variables and arena
  int64_t arena = 0;  // all parts but parameters and optimizer state
  MemoryParts parts;
  int64_t machine_bytes = 0;  // what a device of the machine has
  std::string peak_operation, peak_site;
  std::vector<ExplainedTensor>
      alive;  // in the arena at the peak, largest first
};

namespace internal {

// What each value is for, as far as it has memory of its own, by value.
std::vector<MemoryKind> FindPurposes(const Program& program);

// `plan` is that of `program` (PlanOf). What a device has is left out.
ExplainedMemory ExplainMemory(const Program& program,
                              const MachinePlan& plan = {});

}  // namespace internal

}  // namespace mtf

#endif  // PLANNING_COST_MEMORY_USE_H_
