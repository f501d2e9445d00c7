// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_IS_NO_OP_H_
#define LOWERING_PROGRAM_IS_NO_OP_H_

#include "lowering/program/is_no_op.h"
#include "lowering/program/program.h"

namespace mtf {

// True when a reshape changes no place in memory on any device.
bool IsView(const Program& program, const Instruction& instruction);

// Whether a step does nothing for `instruction`: it takes no time and changes
// no memory, so that a group may reach across it.
inline bool IsNoOp(const Program& program, const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kInput:
    case Opcode::kReadVariable:
    case Opcode::kWriteVariable:
      return true;
    // What stands behind a wait may read what it waits for, so no group reaches
    // across it.
    case Opcode::kWait:
      return false;
    case Opcode::kReshape:
      return IsView(program, instruction);
    default:
      return false;
  }
}

}  // namespace mtf

#endif  // LOWERING_PROGRAM_IS_NO_OP_H_
