// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_REMATERIALIZE_MAPS_H_
#define LOWERING_PASSES_REMATERIALIZE_MAPS_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Rematerializes cheap elementwise values: recomputes a value next to the
// backward instructions that read it instead of keeping it alive from the
// forward pass. After this pass a layer norm keeps its input and three numbers
// per row, not the centered and the normalized activations.
//
//   before  %centered = map(%x, %mean) sub   // live until the backward pass
//           %s = map(%centered, %scale) mul
//           %y = einsum(%s, %w)
//           %g = map(%dy, %centered) mul
//   after   %g = map(%dy, %x, %mean) [sub($1, $2); mul($0, $3)]
//
// A value is rematerialized if
// * it can be recomputed from one operand of the same shape that takes no more
//   bytes, through maps with at most kMaxChainSteps steps in all, each of one
//   or two machine instructions (their other operands are smaller: per-row or
//   per-column statistics);
// * all its late readers are maps or reductions over its elements, so that the
//   recomputation fuses into them, and none may become the epilogue of a
//   matmul. A reader is late if more kernels lie before it on the longest path
//   of dependencies than before the value; all its other readers precede the
//   late ones;
// * the operands that must now stay alive, for this value or for all values
//   recomputed from the same operand, take fewer bytes than those values.
//   Operands that other late readers keep alive anyway are free.
//
// This is rematerialization by minimum cuts (Chen et al. 2016, "Training Deep
// Nets with Sublinear Memory Cost"; PyTorch's min-cut partitioner), restricted
// to chains of maps. Lifetimes are approximated by program order: peak memory
// can grow slightly where a value had been updated in place or filled a gap.
// Idempotent.
//
// Runs after fuse_maps (fused maps are the unit of recomputation) and before
// plan_buffers, which then plans fewer buffers.
absl::Status RematerializeMaps(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_REMATERIALIZE_MAPS_H_
