// SPDX-License-Identifier: Apache-2.0
//
// The part of the verifier that knows where values live in memory. Not for
// other passes: they call VerifyProgram.
#ifndef LOWERING_VERIFY_VERIFY_BUFFERS_H_
#define LOWERING_VERIFY_VERIFY_BUFFERS_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf::internal {

// Checks the places of a program in which VerifyOverlap finds nothing wrong:
// every value has one, aligned and within the arena, or a variable that it lies
// as, the arena ends where the last of them does, the commit is where the first
// variable changes, behind everything that can fail,
// and nobody writes where a value is that is still needed: read later, read or
// made by a collective that runs beside, or written to a variable. An
// instruction may work in place. A program without places has none that are
// wrong. kInternal, with the place of the instruction at fault in `bad`, or -1
// where it is none of them.
absl::Status VerifyBuffers(const Program& program, int* bad);

}  // namespace mtf::internal

#endif  // LOWERING_VERIFY_VERIFY_BUFFERS_H_
