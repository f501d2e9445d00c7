// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_READERS_H_
#define LOWERING_READERS_H_

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

}  // namespace mtf

#endif  // LOWERING_READERS_H_
