// SPDX-License-Identifier: Apache-2.0
//
// The part of the verifier that knows what each instruction does to shapes and
// dtypes. Not for other passes: they call VerifyProgram.
#ifndef LOWERING_VERIFY_VERIFY_SHAPES_H_
#define LOWERING_VERIFY_VERIFY_SHAPES_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf::internal {

// Checks number, shapes and dtypes of operands and results of one instruction,
// and its attributes against them. Operands and results are values of the
// program, and layouts have an entry per dimension. kInternal, without saying
// which instruction it is.
absl::Status VerifyShapes(const Program& program,
                          const Instruction& instruction);

}  // namespace mtf::internal

#endif  // LOWERING_VERIFY_VERIFY_SHAPES_H_
