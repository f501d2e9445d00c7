// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_SHARD_SHAPES_H_
#define LOWERING_PASSES_SHARD_SHAPES_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Sets the per-device extents of every value and inserts a mask wherever
// padding could reach a valid element. What padding contains is tracked through
// the program: zeros stay zeros through a sum, become ones through exp, and are
// unknown after a product with a factor that may be infinite.
//
//   before  %s : f32[b:4] = reduce(%x) sum      %x f32[b:4, length:13/model]
//   after   %x.mask : f32[b:4, length:13/model=7] = mask(%x) length=0
//           %s : f32[b:4] = reduce(%x.mask) sum
//
// Runs once every collective is known, so that a mask is placed between
// instructions that no later pass moves; all passes after it work with the
// shapes of one device.
absl::Status ShardShapes(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_SHARD_SHAPES_H_
