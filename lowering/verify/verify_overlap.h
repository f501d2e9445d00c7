// SPDX-License-Identifier: Apache-2.0
//
// The part of the verifier that knows what may stand between a collective that
// runs beside others and its wait. Not for other passes: they call
// VerifyProgram.
#ifndef LOWERING_VERIFY_VERIFY_OVERLAP_H_
#define LOWERING_VERIFY_VERIFY_OVERLAP_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf::internal {

// Checks a program whose instructions are valid one by one: every collective
// that runs beside is waited for once, and nobody reads what it makes before
// that. What it needs in memory meanwhile is checked by VerifyBuffers.
// kInternal, with the place of the instruction at fault in `bad`.
absl::Status VerifyOverlap(const Program& program, int* bad);

}  // namespace mtf::internal

#endif  // LOWERING_VERIFY_VERIFY_OVERLAP_H_
