// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_FUSE_EPILOGUES_H_
#define LOWERING_PASSES_FUSE_EPILOGUES_H_

#include "absl/status/status.h"
#include "lowering/fusion/fusion_capabilities.h"
#include "lowering/program/program.h"

namespace mtf {

// Groups an einsum with its epilogue, the maps that a matmul applies before it
// writes: an addition of another tensor, a bias, GELU, or any combination of
// them that the device supports; or the gradient of GELU.
//
//   before  %y = einsum(%h, %w) sum{d_ff}
//           %z = map(%y, %x) add
//           %y_1 = einsum(%dz, %w) sum{d_model}
//           %dx = map(%y_1, %x) [gelu_derivative($1); mul($0, $2)]
//   after   group epilogue(%y, %z) add %x
//           group epilogue(%y_1, %dx) gelu_gradient %x
//
// The einsum is one matmul that needs no copy of its result. The input of GELU
// is written too if it has other readers; all other values between the members
// have one reader. Members are adjacent, except that a single map may follow
// other instructions: the sum of two gradients, or the gradient of GELU,
// follows the gradient of a weight. Then the members lie in one window
// (fusion_window.h), and a sum is near the einsum. The result is not written to
// a variable, which a map may update in place.
//
// A device may add in place only (`accumulates`, beta = 1 in a BLAS). Then an
// einsum takes the sum of its result and a tensor that nothing else reads: the
// result has the memory of that tensor.
//
//   before  %dv_x = einsum(%dv, %w_v) sum{d_kv}
//           %dk_x = einsum(%dk, %w_k) sum{d_kv}
//           %dx = map(%dv_x, %dk_x) add
//   after   group epilogue(%dk_x, %dx) accumulate %dv_x
//
// A scatter_add may form a group with the sum of its result and another tensor,
// as in the gradient of a table that is also the weight of a layer.
//
// Runs after overlap_collectives, because no instruction may be inserted into a
// program with groups, and before fuse_rows: an addition that a matmul does
// costs nothing there. Takes linear time.
absl::Status FuseEpilogues(const FusionCapabilities& device, Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_FUSE_EPILOGUES_H_
