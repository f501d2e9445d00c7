// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_OVERLAP_COLLECTIVES_H_
#define LOWERING_PASSES_OVERLAP_COLLECTIVES_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Makes collectives asynchronous: marks those that can overlap with compute,
// starts them early, and inserts a wait before the first reader of their
// results.
//
//   before  %g = einsum(...)
//           %h = einsum(...)
//           %g.sum = all_reduce(%g) sum over{data}
//           %w.full = all_gather(%w) d over{data}
//           %y = einsum(%h, %w.full)
//           %v = map(%g.sum) ...
//   after   %g = einsum(...)
//           %g.sum = all_reduce(%g) sum over{data} asynchronous
//           %w.full = all_gather(%w) d over{data} asynchronous
//           %h = einsum(...)
//           wait(%w.full)
//           %y = einsum(%h, %w.full)
//           wait(%g.sum)
//           %v = map(%g.sum) ...
//
// * A gather of a parameter starts ahead of its use. How far ahead is bounded
//   by memory: gathered parameters that are not used yet take at most the bytes
//   that gathered parameters took at once before this pass, or that a single
//   kernel reads. Gathers increase the memory of the program by no more than
//   that.
// * Any other collective starts directly after the producers of its operands.
//   An all_gather of another value starts where it was, because its result
//   would occupy memory for longer.
// * No start and no wait is placed between an einsum and the maps and
//   reductions that follow from it, nor inside attention (attention_group.h): a
//   device may run those as one kernel.
// * All collectives except all_reduce, which works in place, keep their
//   operands alive until their wait. At most two of them are in flight, so a
//   wait may come before the first reader.
// * A collective that would overlap with no compute stays synchronous.
//
// Collectives have one order on all ranks, the program's, and the program stays
// correct on a device that runs one instruction at a time and ignores waits.
//
// Runs after plan_einsums, because the bytes of shards and the final kernels
// decide what is worth overlapping and no later pass may move anything, and
// before plan_buffers, which keeps the buffers of collectives in flight. Leaves
// a program that has a wait unchanged.
absl::Status OverlapCollectives(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_OVERLAP_COLLECTIVES_H_
