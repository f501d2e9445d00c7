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

// The result shares the memory of the operand: a free reshape, or a
// write_variable, whose operand is copied to the variable when the step ends.
bool IsView(const Program& program, const Instruction& instruction);

// Runs nothing: takes no time and changes no memory where it stands, so a fused
// group may contain instructions before and after it. A wait is none: what
// follows it may read what it waits for.
bool IsNoOp(const Program& program, const Instruction& instruction);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_IS_NO_OP_H_
