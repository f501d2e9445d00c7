// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_RUNS_NOTHING_H_
#define LOWERING_RUNS_NOTHING_H_

#include "lowering/plan_buffers.h"
#include "lowering/program.h"

namespace mtf {

// Whether a step does nothing for `instruction`: it takes no time and changes
// no memory, so that a group may reach across it.
inline bool RunsNothing(const Program& program,
                        const Instruction& instruction) {
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

#endif  // LOWERING_RUNS_NOTHING_H_
