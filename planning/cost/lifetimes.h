// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_COST_LIFETIMES_H_
#define PLANNING_COST_LIFETIMES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "lowering/fusion/fused_group.h"
#include "lowering/program/program.h"

namespace mtf::internal {

// When a value of the arena holds its memory: places of instructions.
struct Lifetime {
  int value = -1;  // who owns the memory
  int maker = 0;
  int begin = 0;
  int end = 0;  // the last instruction that needs it
  int64_t bytes = 0;
};
// The lifetimes of the plan of a program, in the order of their begin. Values
// that share memory, views and what works in place, are one after the other.
// `groups` are those of the plan; without them they are looked for (PlanOf).
std::vector<Lifetime> Lifetimes(const Program& program,
                                absl::Span<const FusedGroup> groups);
std::vector<Lifetime> Lifetimes(const Program& program);

// The bytes of a value on each rank, whatever passes have run.
int64_t LocalBytes(const Program& program, int value);

int64_t MemoryBytes(const Program& program);

}  // namespace mtf::internal

#endif  // PLANNING_COST_LIFETIMES_H_
