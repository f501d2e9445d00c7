// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_PLAN_BUFFERS_H_
#define LOWERING_PASSES_PLAN_BUFFERS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "lowering/fusion/fused_group.h"
#include "lowering/program/program.h"

namespace mtf {

// Gives every value a place in memory: an offset in one arena, by the times
// between which it is needed; the place of its operand, where an instruction
// can work in place or moves nothing (a rename); or the storage of a variable.
// An update writes its variable in place where nothing reads the old value
// later and nothing behind it can fail.
//
//   before  %h : f32[batch:8] = map(%x) relu     nobody reads %x later
//           %w.2 : f32[batch:8] = map(%w, %h) sub
//           %w.3 : f32[batch:8] = write_variable(%w.2) w
//   after   %h : f32[batch:8] @0 = map(%x) relu     %x is at 0 too
//           %w.2 : f32[batch:8] @w = map(%w, %h) sub
//           %w.3 : f32[batch:8] = write_variable(%w.2) w
//
// Runs last: any pass behind it would move what it planned.
absl::Status PlanBuffers(Program& program);

// The plan of a device that runs `groups` so: what they read stays in place
// until the last member, and what they write is theirs from the first.
BufferPlan PlanBuffersOf(const Program& program,
                         absl::Span<const FusedGroup> groups);

}  // namespace mtf

#endif  // LOWERING_PASSES_PLAN_BUFFERS_H_
