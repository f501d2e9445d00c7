// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_DELAY_ALL_REDUCES_H_
#define LOWERING_PASSES_DELAY_ALL_REDUCES_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Moves the reduction of a pending sum behind the linear instructions that read
// it (add, negate, scale by a constant, cast up, transpose, slice, pad by zero,
// local reshape), so that sums are added first and reduced once, and joins a
// reshard to the reshard behind it. ExpressionNumbering of a chain of additions
// that are pending over the same axes are added first. Of the summands of rows
// that were looked up in a cut table all but one are zero, so any cast may come
// before that sum.
//
//   before  %1.sum : f32[b:8] = reshard(%1)       %1 unreduced{model}
//           %2.sum : f32[b:8] = reshard(%2)       %2 unreduced{model}
//           %3 = map(%1.sum, %2.sum) add
//   after   %3 : f32[b:8] unreduced{model} = map(%1, %2) add
//           %3.sum : f32[b:8] = reshard(%3)
//
// Runs first: it needs reshards that are still abstract, and maps that hold a
// single function each. A sum with a second reader is not delayed: that reader
// needs it anyway.
absl::Status DelayAllReduces(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_DELAY_ALL_REDUCES_H_
