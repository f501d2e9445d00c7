// SPDX-License-Identifier: Apache-2.0
//
// A part of VerifyProgram: which layouts an instruction accepts and produces.
#ifndef LOWERING_VERIFY_VERIFY_LAYOUTS_H_
#define LOWERING_VERIFY_VERIFY_LAYOUTS_H_

#include <vector>

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf::internal {

// Checks the layouts of one instruction whose shapes are valid: the union of
// its dimensions uses every mesh axis at most once, dimensions that must be
// unsharded are, only linear instructions read unreduced values, and the result
// has the layout that the instruction produces. `looked_up` states by value
// whether a gather produced it. Returns kInternal; the caller adds the
// instruction.
absl::Status VerifyLayouts(const Program& program,
                           const Instruction& instruction,
                           const std::vector<bool>& looked_up);

}  // namespace mtf::internal

#endif  // LOWERING_VERIFY_VERIFY_LAYOUTS_H_
