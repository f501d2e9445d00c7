// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_READERS_H_
#define LOWERING_PROGRAM_READERS_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "lowering/program/program.h"

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

// By instruction, where it is over at the latest: at its wait, of a collective
// that runs beside, else where it stands.
inline std::vector<int> FindEnds(const Program& program) {
  std::vector<int> ends(program.instructions.size());
  std::vector<std::pair<int, int>> beside;  // first result, instruction
  for (size_t i = 0; i < ends.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    ends[i] = static_cast<int>(i);
    if (IsAsynchronous(instruction)) {
      beside.emplace_back(instruction.results[0], static_cast<int>(i));
    } else if (instruction.opcode == Opcode::kWait) {
      for (int operand : instruction.operands) {
        for (size_t b = 0; b < beside.size(); ++b) {
          if (beside[b].first != operand) continue;
          ends[beside[b].second] = static_cast<int>(i);
          beside.erase(beside.begin() + static_cast<std::ptrdiff_t>(b));
          break;
        }
      }
    }
  }
  return ends;
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

#endif  // LOWERING_PROGRAM_READERS_H_
