// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_FUSE_REDUCE_SCATTERS_H_
#define LOWERING_PASSES_FUSE_REDUCE_SCATTERS_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Rewrites an all_slice of an all_reduce over the same mesh axes as one
// reduce_scatter: the same values for half the bytes on the wire.
//
//   before  %1 = all_reduce(%0) sum over{cols}
//           %2 = all_slice(%1) hidden over{cols}
//   after   %2 = reduce_scatter(%0) sum hidden over{cols}
//
// Runs after expand_reshards, which writes the all_slice, and before
// shard_shapes, because it compares global shapes. A sum with a second reader
// stays an all_reduce: the other reader needs all of it.
absl::Status FuseReduceScatters(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_FUSE_REDUCE_SCATTERS_H_
