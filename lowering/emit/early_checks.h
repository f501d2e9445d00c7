// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_EMIT_EARLY_CHECKS_H_
#define LOWERING_EMIT_EARLY_CHECKS_H_

#include "lowering/program/program.h"

namespace mtf {

// Moves the checks of indices to the front of the program, with what their
// indices are computed from: an update changes a variable in place only after
// the last instruction that can fail, and updates of a later layer or position
// have checks of their own.
//
//   before  %a : f32[n:8] = update_slice(%x, %u, %i)
//           %j : i32[] = check_index(%p) 1 of n:8
//           %b : f32[n:8] = update_slice(%a, %v, %j)
//   after   %j : i32[] = check_index(%p) 1 of n:8
//           %a : f32[n:8] = update_slice(%x, %u, %i)
//           %b : f32[n:8] = update_slice(%a, %v, %j)
//
// A check stays in its place if its index is large, or is computed by more than
// maps and movements of inputs, variables and constants.
void MoveChecksForward(Program& program);

}  // namespace mtf

#endif  // LOWERING_EMIT_EARLY_CHECKS_H_
