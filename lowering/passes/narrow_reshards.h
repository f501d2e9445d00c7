// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_NARROW_RESHARDS_H_
#define LOWERING_PASSES_NARROW_RESHARDS_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Sends the narrower dtype where a cast stands beside a reshard: casts up come
// behind it and casts down before it, for half the bytes on the wire.
//
//   before  %dw : f32[io:4] unreduced{data} = map(%1) [cast.f32($0)]
//           %dw.sum : f32[io:4] = reshard(%dw)         %1 is bf16
//   after   %1.sum : bf16[io:4] = reshard(%1)
//           %dw.sum : f32[io:4] = map(%1.sum) [cast.f32($0)]
//
//   before  %w.whole : f32[io:4] = reshard(%w)         %w is f32[io:4/data]
//           %half : bf16[io:4] = map(%w.whole) [cast.bf16($0)]
//   after   %w.half : bf16[io:4/data] = map(%w) [cast.bf16($0)]
//           %half : bf16[io:4] = reshard(%w.half)
//
// A cast up, beside a reshard or not, comes just before its first reader, so
// that what waits is narrow too: gradients wait for the optimizer in the dtype
// they were made in, and nobody reads their sums before all can go in one call.
//
// A cast that rounds never comes before a sum, where it would lose what the sum
// keeps. A sum is taken in the dtype that the user gave the summands;
// communicators add 16-bit floats in f32 and round once.
//
// Runs behind delay_all_reduces, which moves casts up before sums so that sums
// of several terms meet (a cast that is still alone with its sum gains
// nothing there), and before expand_reshards, while a reshard is one
// instruction.
absl::Status NarrowReshards(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_NARROW_RESHARDS_H_
