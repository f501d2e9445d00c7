// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_PRESERVES_VALUE_H_
#define LOWERING_PROGRAM_PRESERVES_VALUE_H_

#include "lowering/program/program.h"

namespace mtf {

// Whether the result is the operand, moved, with its padding filled or in
// another dtype: to the user it is the same tensor.
inline bool PreservesValue(const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kReshape:
    case Opcode::kMask:
    case Opcode::kReshard:
    case Opcode::kAllGather:
    case Opcode::kAllSlice:
    case Opcode::kAllToAll:
    case Opcode::kCollectivePermute:
      return true;
    case Opcode::kMap:
      return instruction.operands.size() == 1 &&
             instruction.expression.steps.size() == 1 &&
             (instruction.expression.steps[0].function ==
                  ScalarFunction::kIdentity ||
              instruction.expression.steps[0].function ==
                  ScalarFunction::kCast);
    default:
      return false;
  }
}

}  // namespace mtf

#endif  // LOWERING_PROGRAM_PRESERVES_VALUE_H_
