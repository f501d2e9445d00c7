// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_READERS_H_
#define LOWERING_READERS_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "lowering/program.h"

namespace mtf {

// How many operand places read each value.
inline std::vector<int> CountReaders(const Program& program) {
  std::vector<int> readers(program.values.size(), 0);
  for (const Instruction& instruction : program.instructions) {
    for (int operand : instruction.operands) ++readers[operand];
  }
  return readers;
}

// The instruction that makes each value, or -1.
inline std::vector<int> FindProducers(const Program& program) {
  std::vector<int> producers(program.values.size(), -1);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    for (int result : program.instructions[i].results) {
      producers[result] = static_cast<int>(i);
    }
  }
  return producers;
}

// Removes the instructions whose flag is set. In place: a program of a large
// model takes megabytes, and fresh memory costs more than the work.
inline void EraseInstructions(const std::vector<bool>& dead, Program& program) {
  std::vector<Instruction>& instructions = program.instructions;
  size_t kept = 0;
  for (size_t i = 0; i < instructions.size(); ++i) {
    if (dead[i]) continue;
    if (kept != i) instructions[kept] = std::move(instructions[i]);
    ++kept;
  }
  instructions.erase(instructions.begin() + static_cast<std::ptrdiff_t>(kept),
                     instructions.end());
}

}  // namespace mtf

#endif  // LOWERING_READERS_H_
