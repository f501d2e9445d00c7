// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_OVERLAP_COLLECTIVES_H_
#define LOWERING_PASSES_OVERLAP_COLLECTIVES_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Lets collectives run beside the compute that does not need them: marks them,
// starts them early, and writes a wait where their results are needed first.
//
//   before  %g = einsum(...)
//           %h = einsum(...)
//           %g.sum = all_reduce(%g) sum over{data}
//           %w.whole = all_gather(%w) d over{data}
//           %y = einsum(%h, %w.whole)
//           %v = map(%g.sum) ...
//   after   %g = einsum(...)
//           %g.sum = all_reduce(%g) sum over{data} beside
//           %w.whole = all_gather(%w) d over{data} beside
//           %h = einsum(...)
//           wait(%w.whole)
//           %y = einsum(%h, %w.whole)
//           wait(%g.sum)
//           %v = map(%g.sum) ...
//
// * A gather of a parameter starts ahead of its use: so early that what is
//   gathered and not yet used is no more than the program held of gathered
//   parameters at once before, or what a single kernel uses of them. That is
//   all that the memory of a step may grow by for gathers.
// * Any other collective starts behind what makes its operands, but a gather,
//   whose result would take memory for longer, where it stands.
// * Nothing starts or is waited for between an einsum and the maps and
//   reductions that follow from it, nor within attention (attention_group.h):
//   a device may run them as one kernel.
// * All collectives but an all_reduce, which works in place, hold their
//   operands until their wait: of those no more than two are under way, so a
//   wait may come before the result is needed.
// * A collective beside which nothing would compute stays as it is.
//
// Collectives have one order, that of the program, on all ranks, and the
// program remains right for a device that runs one instruction at a time and
// does nothing for a wait.
//
// Runs after plan_einsums, for the bytes of shards and the final kernels decide
// what is worth it and no pass behind it is to move anything, and before
// plan_buffers, which keeps in place what is under way. A program with a wait
// is left as it is.
absl::Status OverlapCollectives(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_OVERLAP_COLLECTIVES_H_
