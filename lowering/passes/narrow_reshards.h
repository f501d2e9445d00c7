// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_NARROW_RESHARDS_H_
#define LOWERING_PASSES_NARROW_RESHARDS_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Swaps a cast and a reshard so that the narrower dtype is sent: casts to a
// wider dtype move after the reshard and casts to a narrower one before it, for
// half the bytes on the wire.
//
//   before  %dw : f32[io:4] unreduced{data} = map(%1) [cast.f32($0)]
//           %dw.sum : f32[io:4] = reshard(%dw)         %1 is bf16
//   after   %1.sum : bf16[io:4] = reshard(%1)
//           %dw.sum : f32[io:4] = map(%1.sum) [cast.f32($0)]
//
//   before  %w.full : f32[io:4] = reshard(%w)          %w is f32[io:4/data]
//           %half : bf16[io:4] = map(%w.full) [cast.bf16($0)]
//   after   %w.half : bf16[io:4/data] = map(%w) [cast.bf16($0)]
//           %half : bf16[io:4] = reshard(%w.half)
//
// Every widening cast, next to a reshard or not, moves directly before its
// first reader, so that values stay narrow while they wait: gradients wait for
// the optimizer in the dtype that produced them, and their reductions have no
// early reader that would split a bucket.
//
// A narrowing cast never moves before a reduction, which would lose precision
// in the sum. A reduction uses the dtype that the user gave the summands;
// communicators add 16-bit floats in f32 and round once.
//
// Runs after delay_all_reduces, which moves widening casts before reductions so
// that terms can be added first (a cast that is still alone with its reduction
// gains nothing there), and before expand_reshards, while a reshard is one
// instruction.
absl::Status NarrowReshards(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_NARROW_RESHARDS_H_
