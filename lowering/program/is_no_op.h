// SPDX-License-Identifier: Apache-2.0
//
// Which instructions cost nothing at run time. That depends on layouts and
// padding, so it is not in the opcode table.
#ifndef LOWERING_PROGRAM_IS_NO_OP_H_
#define LOWERING_PROGRAM_IS_NO_OP_H_

#include "lowering/program/program.h"

namespace mtf {

// A reshape whose elements all keep their offset in memory on every rank.
bool IsFreeReshape(const Program& program, const Instruction& instruction);

// The result shares the memory of the first operand: a free reshape, a depend,
// or a write_variable, whose operand is copied to the variable when the step
// ends.
bool IsView(const Program& program, const Instruction& instruction);

// Takes no time and changes no memory, so a fused group may contain
// instructions before and after it: an input, a read of a variable, or a view.
// A wait is not a no-op, because instructions after it may read what it waits
// for; a depend is not, because those before it run before those after it.
bool IsNoOp(const Program& program, const Instruction& instruction);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_IS_NO_OP_H_
