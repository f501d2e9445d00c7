// SPDX-License-Identifier: Apache-2.0
//
// How many values each instruction takes: what the parser of program texts and
// the verifier both hold an instruction against.
#ifndef LOWERING_PROGRAM_OPERAND_COUNTS_H_
#define LOWERING_PROGRAM_OPERAND_COUNTS_H_

#include <cstddef>
#include <string>

#include "lowering/program/program.h"

namespace mtf::internal {

// "" where an instruction of `opcode` can have `count` operands, and else what
// is wrong: "einsum takes 2 operands, not 1".
std::string WrongOperandCount(Opcode opcode, size_t count);

}  // namespace mtf::internal

#endif  // LOWERING_PROGRAM_OPERAND_COUNTS_H_
