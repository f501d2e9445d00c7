// SPDX-License-Identifier: Apache-2.0
//
// A part of VerifyProgram: take_rows, place_rows, windows and fold_windows.
#ifndef LOWERING_VERIFY_VERIFY_ROWS_H_
#define LOWERING_VERIFY_VERIFY_ROWS_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf::internal {

// Check the shapes of one instruction. They return kInternal; the caller adds
// the instruction.
absl::Status VerifyRowShapes(const Program& program,
                             const Instruction& instruction);
absl::Status VerifyWindowShapes(const Program& program,
                                const Instruction& instruction);

// Checks how the dimensions of one of these instructions are sharded, given
// that its shapes are valid.
absl::Status VerifyRowLayouts(const Program& program,
                              const Instruction& instruction);

// Checks that rows that are taken to be sent are read by the collective of
// their round only, and what it receives by the place_rows that expects it. If
// not, `bad` receives the instruction.
absl::Status VerifyRows(const Program& program, int* bad);

}  // namespace mtf::internal

#endif  // LOWERING_VERIFY_VERIFY_ROWS_H_
