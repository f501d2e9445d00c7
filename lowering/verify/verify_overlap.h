// SPDX-License-Identifier: Apache-2.0
//
// A part of VerifyProgram: asynchronous collectives and their waits.
#ifndef LOWERING_VERIFY_VERIFY_OVERLAP_H_
#define LOWERING_VERIFY_VERIFY_OVERLAP_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf::internal {

// Checks a program whose instructions are valid one by one: every asynchronous
// collective has one wait, and no instruction reads its results before that.
// VerifyBuffers checks the memory that it uses until then. Returns kInternal
// and sets `bad` to the index of the instruction at fault.
absl::Status VerifyOverlap(const Program& program, int* bad);

}  // namespace mtf::internal

#endif  // LOWERING_VERIFY_VERIFY_OVERLAP_H_
