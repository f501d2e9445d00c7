// SPDX-License-Identifier: Apache-2.0
//
// The part of the verifier that knows which layouts an instruction takes and
// gives. Not for other passes: they call VerifyProgram.
#ifndef LOWERING_VERIFY_VERIFY_LAYOUTS_H_
#define LOWERING_VERIFY_VERIFY_LAYOUTS_H_

#include <vector>

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf::internal {

// Checks the layouts of one instruction whose shapes are valid: cuts are legal
// on the union of its dimensions, what it needs whole is whole, nothing that is
// not linear reads an unreduced value, and the result lies as the instruction
// leaves it. `looked_up` tells which values a gather has made. kInternal,
// without saying which instruction it is.
absl::Status VerifyLayouts(const Program& program,
                           const Instruction& instruction,
                           const std::vector<bool>& looked_up);

}  // namespace mtf::internal

#endif  // LOWERING_VERIFY_VERIFY_LAYOUTS_H_
