// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_BUCKET_ALL_REDUCES_H_
#define LOWERING_PASSES_BUCKET_ALL_REDUCES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Joins all_reduces, and likewise reduce_scatters, of one kind, dtype and list
// of axes into one call. Each sum is taken as soon as its operand is made; the
// call comes where they are 64 MiB together (2 MiB for each rank that takes
// part, of more than 32, up to 256 MiB), and at the latest before the first
// instruction that reads any of their results. Gradients of parameters are read
// late, by the optimizer, so those of one axis become few large calls, the
// first of them early: no more than 64 MiB and one gradient wait to be summed.
// A sum that is read at once stays alone.
//
//   before  %a.sum = all_reduce(%a) sum over{data}
//           %b = einsum(...)
//           %b.sum = all_reduce(%b) sum over{data}
//           %c = map(%a.sum, ...)
//   after   %b = einsum(...)
//           %a.sum, %b.sum = all_reduce(%a, %b) sum over{data}
//           %c = map(%a.sum, ...)
//
// Runs after the passes that change which collectives there are, and before
// shard_shapes.
absl::Status BucketAllReduces(Program& program);

// The bytes of operands that a call of so many ranks does not wait beyond.
int64_t FullBucketBytes(int64_t ranks);

}  // namespace mtf

#endif  // LOWERING_PASSES_BUCKET_ALL_REDUCES_H_
