// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_COST_LIFETIMES_H_
#define PLANNING_COST_LIFETIMES_H_

#include <cstdint>
#include <vector>

#include "lowering/program/program.h"

namespace mtf::internal {

// The instructions during which a value occupies its memory in the arena.
struct Lifetime {
  int value = -1;  // the value that owns the memory
  int maker = 0;   // the instruction that computes it
  int begin = 0;
  int end = 0;  // the last instruction that uses the memory
  int64_t bytes = 0;
};
// The lifetimes of the values that the buffer plan of `program` puts in the
// arena, ordered by `begin`. A view extends the lifetime of its operand. If a
// result is computed in place, its lifetime begins when that of the operand
// ends.
std::vector<Lifetime> Lifetimes(const Program& program);

// The bytes of a value on each rank. Works before and after shard_shapes.
int64_t LocalBytes(const Program& program, int value);

// The bytes of a variable on each rank, wherever it is stored.
int64_t StoredBytes(const Program& program, const ProgramVariable& variable);
// The host memory of a rank: offloaded variables.
int64_t HostBytes(const Program& program);
// The bytes that a step copies to and from host memory on each rank.
int64_t HostCopyBytes(const Program& program);
// The device memory of a rank: arena, and variables that are not offloaded.
int64_t MemoryBytes(const Program& program);

}  // namespace mtf::internal

#endif  // PLANNING_COST_LIFETIMES_H_
