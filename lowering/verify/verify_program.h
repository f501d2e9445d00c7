// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_VERIFY_VERIFY_PROGRAM_H_
#define LOWERING_VERIFY_VERIFY_PROGRAM_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Set in place of the index of an instruction if the arena size, the commit, or
// the program as a whole is wrong.
inline constexpr int kBadArena = -2;
inline constexpr int kBadCommit = -3;
inline constexpr int kBadProgram = -1;

// Checks that a program is valid:
//   * Every value is defined once, before it is read, under a unique name.
//   * Shapes, dtypes and layouts of results are those that the instruction
//     produces, and layouts are legal on the union of its dimensions.
//   * Only instructions that are linear in an unreduced value read it.
//   * Every input, output and write to a variable occurs once.
//   * Every asynchronous collective has a wait.
//   * Fused groups are disjoint, and each can run at its first member.
//   * Buffers are within their bounds and overwrite no value that is still
//     needed.
//   * Causes name axes, dimensions and rules of the program.
// Returns kInternal with the instruction at fault, because a broken program is
// a bug of a pass, and sets `*bad` to its index or to one of the constants
// above.
absl::Status VerifyProgram(const Program& program, int* bad = nullptr);

}  // namespace mtf

#endif  // LOWERING_VERIFY_VERIFY_PROGRAM_H_
