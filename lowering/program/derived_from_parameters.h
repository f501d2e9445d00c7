// SPDX-License-Identifier: Apache-2.0
//
// What is made of a variable alone, and so can be made wherever it is needed.
#ifndef LOWERING_PROGRAM_DERIVED_FROM_PARAMETERS_H_
#define LOWERING_PROGRAM_DERIVED_FROM_PARAMETERS_H_

#include <vector>

#include "lowering/program/program.h"

namespace mtf {

// Whether an instruction only moves, cuts or maps its one operand.
bool IsLight(const Instruction& instruction);

// By instruction, whether it reads a variable or makes something of one by
// light instructions alone. Gathers of such may go ahead of their use
// (overlap_collectives.h), with all that leads to them.
std::vector<bool> FindDerivedFromVariables(const Program& program);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_DERIVED_FROM_PARAMETERS_H_
