// SPDX-License-Identifier: Apache-2.0
//
// A part of VerifyProgram: what each instruction does to shapes and dtypes.
#ifndef LOWERING_VERIFY_VERIFY_SHAPES_H_
#define LOWERING_VERIFY_VERIFY_SHAPES_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf::internal {

// Checks the number, shapes and dtypes of operands and results of one
// instruction, and its attributes. Operands and results must be values of the
// program whose layouts have an entry per dimension. Returns kInternal; the
// caller adds the instruction.
absl::Status VerifyShapes(const Program& program,
                          const Instruction& instruction);

}  // namespace mtf::internal

#endif  // LOWERING_VERIFY_VERIFY_SHAPES_H_
