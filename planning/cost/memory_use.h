// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_COST_MEMORY_USE_H_
#define PLANNING_COST_MEMORY_USE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lowering/program/program.h"
#include "planning/cost/step_cost.h"

namespace mtf {

enum class MemoryKind : uint8_t {
  kParameter,
  kOptimizerState,
  // Gradients of parameters: unreduced summands, sums, casts.
  kGradient,
  // Copies of a variable, gathered from its shards or cast, and its updated
  // value before it is written.
  kCopy,
  kActivation,  // everything else
};
std::string MemoryKindName(MemoryKind kind);

// A tensor that occupies memory.
struct ExplainedTensor {
  std::string name;
  MemoryKind kind = MemoryKind::kActivation;
  std::string type;   // "f32[batch:8/data, d_ff:32]"
  int64_t bytes = 0;  // on each rank
  std::string operation, site;
};

// The memory of a rank.
struct ExplainedMemory {
  int64_t total = 0;  // variables and arena
  int64_t arena = 0;  // everything but variables
  MemoryParts parts;
  int64_t machine_bytes = 0;  // memory of a device of the machine
  std::string peak_operation, peak_site;
  // The tensors in the arena at the peak, largest first.
  std::vector<ExplainedTensor> alive;
};

namespace internal {

// By value: the purpose of its memory.
std::vector<MemoryKind> FindPurposes(const Program& program);

// Breaks down the memory of a lowered program. Does not set `machine_bytes`.
ExplainedMemory ExplainMemory(const Program& program);

}  // namespace internal

}  // namespace mtf

#endif  // PLANNING_COST_MEMORY_USE_H_
