// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_VERIFY_PROGRAM_H_
#define LOWERING_VERIFY_PROGRAM_H_

#include "absl/status/status.h"
#include "lowering/program.h"

namespace mtf {

// Checks that a program makes sense: every operand defined before it is read
// and once, names unique, layouts legal on the union of dimensions of each
// instruction, shapes, dtypes and layouts of results as the instruction says,
// no unreduced value read by an instruction that is not linear in it, what runs
// beside waited for, places in memory within their bounds and written only
// where nothing is needed any more, causes that the program and its rules know.
// kInternal with the offending instruction, whose place goes to `*bad` (-1
// where it is none of them): a broken program is a bug of a pass.
absl::Status VerifyProgram(const Program& program, int* bad = nullptr);

}  // namespace mtf

#endif  // LOWERING_VERIFY_PROGRAM_H_
