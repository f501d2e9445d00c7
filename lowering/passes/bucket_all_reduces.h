// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_BUCKET_ALL_REDUCES_H_
#define LOWERING_PASSES_BUCKET_ALL_REDUCES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Combines all_reduces of one kind, dtype and list of axes into one call, and
// reduce_scatters likewise. A reduction enters a bucket as soon as its operand
// is computed. The call is issued when the bucket holds 64 MiB of operands (2
// MiB per participating rank beyond 32 ranks, at most 256 MiB), and at the
// latest before the first instruction that reads one of the results. The
// optimizer reads the gradients of parameters late, so the gradients reduced
// over one axis become few large calls, the first of them early; at most 64 MiB
// and one gradient wait for their reduction. A reduction whose result is read
// immediately stays alone.
//
//   before  %a.sum = all_reduce(%a) sum over{data}
//           %b = einsum(...)
//           %b.sum = all_reduce(%b) sum over{data}
//           %c = map(%a.sum, ...)
//   after   %b = einsum(...)
//           %a.sum, %b.sum = all_reduce(%a, %b) sum over{data}
//           %c = map(%a.sum, ...)
//
// Runs after the passes that add, replace or remove collectives, and before
// shard_shapes.
absl::Status BucketAllReduces(Program& program);

// The bytes of operands at which a bucket over `ranks` ranks is issued.
int64_t MaxBucketBytes(int64_t ranks);

}  // namespace mtf

#endif  // LOWERING_PASSES_BUCKET_ALL_REDUCES_H_
