// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_VERIFY_VERIFY_PROGRAM_H_
#define LOWERING_VERIFY_VERIFY_PROGRAM_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Instead of an instruction: the number of bytes of the arena, the commit of
// the buffers, or nothing of these.
inline constexpr int kBadArena = -2;
inline constexpr int kBadCommit = -3;
inline constexpr int kBadProgram = -1;

// Checks that a program makes sense: every operand defined before it is read
// and once, names unique, layouts legal on the union of dimensions of each
// instruction, shapes, dtypes and layouts of results as the instruction says,
// no unreduced value read by an instruction that is not linear in it, inputs,
// outputs and writes to variables once each, what runs beside waited for,
// places in memory within their bounds and written only where nothing is needed
// any more, causes that the program and its rules know. kInternal with the
// offending instruction, whose place goes to `*bad`, or one of those below: a
// broken program is a bug of a pass.
absl::Status VerifyProgram(const Program& program, int* bad = nullptr);

}  // namespace mtf

#endif  // LOWERING_VERIFY_VERIFY_PROGRAM_H_
