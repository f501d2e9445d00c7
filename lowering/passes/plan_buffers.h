// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_PLAN_BUFFERS_H_
#define LOWERING_PASSES_PLAN_BUFFERS_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Assigns memory to every value: an offset in one arena, by the lifetime of the
// value; the buffer of an operand, if the instruction can work in place or
// moves no data (a rename); or the storage of a variable. An update writes its
// variable in place if nothing reads the old value later and no later
// instruction can fail.
//
//   before  %h : f32[batch:8] = map(%x) relu     %x has no later reader
//           %w.2 : f32[batch:8] = map(%w, %h) sub
//           %w.3 : f32[batch:8] = write_variable(%w.2) w
//   after   %h : f32[batch:8] @0 = map(%x) relu     %x is at 0 too
//           %w.2 : f32[batch:8] @w = map(%w, %h) sub
//           %w.3 : f32[batch:8] = write_variable(%w.2) w
//
// A fused group runs at its first member: its inputs stay alive until the last
// member, its results exist from the first member on, and values internal to it
// have no memory (fused_group.h).
//
// Runs last: any later pass would change the lifetimes that it planned for.
absl::Status PlanBuffers(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_PLAN_BUFFERS_H_
