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
// Runs after shard_shapes, because a mask needs its operand as a value of its
// own, and before plan_buffers, which then plans fewer buffers.
absl::Status FuseMaps(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_FUSE_MAPS_H_
