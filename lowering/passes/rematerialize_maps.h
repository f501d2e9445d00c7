// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_REMATERIALIZE_MAPS_H_
#define LOWERING_PASSES_REMATERIALIZE_MAPS_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Computes what is cheap once more where it is read late, in place of keeping
// it from the forward to the backward pass. Of a norm, its operand and three
// numbers for each row stay in memory, not the operand less its mean and that
// over its deviation.
//
//   before  %sub = map(%x, %mean) sub      // %x, %mean : bf16, f32
//           %s = map(%sub, %scale) mul
//           %y = einsum(%s, %w)
//           %g = map(%dy, %sub) mul        // %sub : f32 is kept until here
//   after   %g = map(%dy, %x, %mean) [sub($1, $2); mul($0, $3)]
//
// A value is made again of the operand that has its elements, through maps that
// have one such operand each; their other operands are smaller, as those of
// rows or columns are. It is, where
//
//   * there are few steps in between, of an instruction or two each,
//   * all that read it late are maps and reductions over its elements, and none
//     is what a matmul does before it writes,
//   * what reads it otherwise stands before them,
//   * what it is made of takes no more bytes than it does, and
//   * what is kept for it, or for all values made of the same, takes fewer
//     bytes than they do; what somebody else reads as late is kept anyway.
//
// A reader is late before which more lies, on the longest way, than before the
// value: instructions that are no maps and no reductions of a row. Others could
// be one kernel with it, on a device that fuses.
// How long values last is all that is looked at, so that the memory of a
// program may still grow by a little, where something else was in place or lay
// in a gap. The choice is the one of rematerialization by cuts of least bytes
// (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"; PyTorch's
// min-cut partitioner), restricted to chains of maps. A second run changes
// nothing.
//
// Runs after fuse_maps, whose fused maps are what is kept, and before
// plan_buffers, which then has fewer buffers.
absl::Status RematerializeMaps(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_REMATERIALIZE_MAPS_H_
