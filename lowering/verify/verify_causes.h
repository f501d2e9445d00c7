// SPDX-License-Identifier: Apache-2.0
//
// The part of the verifier that knows what may cause a change of a layout. Not
// for other passes: they call VerifyProgram.
#ifndef LOWERING_VERIFY_VERIFY_CAUSES_H_
#define LOWERING_VERIFY_VERIFY_CAUSES_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf::internal {

// Checks the causes of one instruction, "for{d_ff/model rule 0}": only what
// changes a layout has any, the program cuts the dimension over the axis, and
// the rule is one of the program and says so. kInternal, without saying which
// instruction it is.
absl::Status VerifyCauses(const Program& program,
                          const Instruction& instruction);

}  // namespace mtf::internal

#endif  // LOWERING_VERIFY_VERIFY_CAUSES_H_
