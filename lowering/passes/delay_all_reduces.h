// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_DELAY_ALL_REDUCES_H_
#define LOWERING_PASSES_DELAY_ALL_REDUCES_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Moves the reduction of an unreduced value after the linear instructions that
// read it (add, negate, scale by a constant, cast up, transpose, slice, pad by
// zero, local reshape), so that values are added first and reduced once, and
// merges a reshard with the reshard that follows it. In a chain of additions and
// subtractions, the terms that are unreduced over the same axes are added to
// each other first. When rows are looked up in a sharded table, all but one of the
// summands are zero, so any cast can move before that reduction.
//
//   before  %1.sum : f32[b:8] = reshard(%1)       %1 unreduced{model}
//           %2.sum : f32[b:8] = reshard(%2)       %2 unreduced{model}
//           %3 = map(%1.sum, %2.sum) add
//   after   %3 : f32[b:8] unreduced{model} = map(%1, %2) add
//           %3.sum : f32[b:8] = reshard(%3)
//
// A reduction whose result has several readers is delayed if all of them lead
// to one later reduction, as in p + q + p. Otherwise some reader needs the
// reduced value anyway.
//
// Runs first: it needs abstract reshards, and maps of a single function each.
absl::Status DelayAllReduces(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_DELAY_ALL_REDUCES_H_
