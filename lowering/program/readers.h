// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_READERS_H_
#define LOWERING_PROGRAM_READERS_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "lowering/program/program.h"

namespace mtf {

// By value, how many operands read it.
inline std::vector<int> CountReaders(const Program& program) {
  std::vector<int> readers(program.values.size(), 0);
  for (const Instruction& instruction : program.instructions) {
    for (int operand : instruction.operands) ++readers[operand];
  }
  return readers;
}

// By value, the instruction that produces it, or -1.
inline std::vector<int> FindProducers(const Program& program) {
  std::vector<int> producers(program.values.size(), -1);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    for (int result : program.instructions[i].results) {
      producers[result] = static_cast<int>(i);
    }
  }
  return producers;
}

// By instruction, the index at which it has completed: that of its wait for an
// asynchronous collective, its own otherwise.
inline std::vector<int> FindEnds(const Program& program) {
  std::vector<int> ends(program.instructions.size());
  std::vector<std::pair<int, int>> in_flight;  // first result, instruction
  for (size_t i = 0; i < ends.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    ends[i] = static_cast<int>(i);
    if (IsAsynchronous(instruction)) {
      in_flight.emplace_back(instruction.results[0], static_cast<int>(i));
    } else if (instruction.opcode == Opcode::kWait) {
      for (int operand : instruction.operands) {
        for (size_t b = 0; b < in_flight.size(); ++b) {
          if (in_flight[b].first != operand) continue;
          ends[in_flight[b].second] = static_cast<int>(i);
          in_flight.erase(in_flight.begin() + static_cast<std::ptrdiff_t>(b));
          break;
        }
      }
    }
  }
  return ends;
}

// Removes the instructions whose flag is set. In place, because a program of a
// large model takes megabytes, and allocating them costs more than moving.
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

#endif  // LOWERING_PROGRAM_READERS_H_
