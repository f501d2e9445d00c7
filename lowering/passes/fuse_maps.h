// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_FUSE_MAPS_H_
#define LOWERING_PASSES_FUSE_MAPS_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Puts a map into its only reader, when that is a map of the same elements or a
// reduction over them, so that what stood between is never in memory. Literals
// and iotas go into every reader: they cost nothing to make again.
//
//   before  %1 = map(%x, %b) add
//           %2 = map(%1) gelu
//   after   %2 = map(%x, %b) [add($0, $1); gelu($2)]
//
// Runs after shard_shapes, whose masks would otherwise find their operand
// inside another map, and before plan_buffers, which then has fewer buffers.
absl::Status FuseMaps(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_FUSE_MAPS_H_
