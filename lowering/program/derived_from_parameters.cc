// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/derived_from_parameters.h"

namespace mtf {

std::vector<bool> FindDerivedFromVariables(const Program& program) {
  std::vector<bool> values(program.values.size(), false);
  std::vector<bool> instructions(program.instructions.size(), false);
  for (size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    instructions[i] =
        instruction.opcode == Opcode::kReadVariable ||
        (IsUnaryMapOrMove(instruction) && values[instruction.operands[0]]);
    if (instructions[i]) values[instruction.results[0]] = true;
  }
  return instructions;
}

}  // namespace mtf
