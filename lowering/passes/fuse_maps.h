// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_FUSE_MAPS_H_
#define LOWERING_PASSES_FUSE_MAPS_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Fuses a map into its only reader, if that is a map over the same elements or
// a reduction over them, so that the intermediate value is never stored.
// Literals and iotas are fused into every reader: rematerializing them costs
// nothing.
//
//   before  %1 = map(%x, %b) add
//           %2 = map(%1) gelu
//   after   %2 = map(%x, %b) [add($0, $1); gelu($2)]
//
// A sum of einsums, such as the gradients of a weight that is used several
// times, stays a running sum: if the next einsum follows each addition, one sum
// is in memory instead of all summands, and a device can add in the matmul
// (fuse_epilogues).
//
// Runs after shard_shapes, because a mask needs its operand as a value of its
// own, and before plan_buffers, which then plans fewer buffers.
absl::Status FuseMaps(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_FUSE_MAPS_H_
