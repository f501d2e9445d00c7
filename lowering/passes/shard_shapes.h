// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_SHARD_SHAPES_H_
#define LOWERING_PASSES_SHARD_SHAPES_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Gives every value its extents on one device and writes a mask wherever
// padding could flow into a valid element. What padding holds is followed
// through the program: zeros stay zeros through a sum, become ones through exp,
// and are unknown behind a product with something that might be infinite.
//
//   before  %s : f32[b:4] = reduce(%x) sum      %x f32[b:4, length:13/model]
//   after   %x.mask : f32[b:4, length:13/model=7] = mask(%x) length=0
//           %s : f32[b:4] = reduce(%x.mask) sum
//
// Runs when every collective is known, for masks stand between instructions
// that stay; all passes behind it work on one device's shapes.
absl::Status ShardShapes(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_SHARD_SHAPES_H_
