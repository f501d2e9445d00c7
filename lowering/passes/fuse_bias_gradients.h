// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_FUSE_BIAS_GRADIENTS_H_
#define LOWERING_PASSES_FUSE_BIAS_GRADIENTS_H_

#include "absl/status/status.h"
#include "lowering/fusion/fusion_capabilities.h"
#include "lowering/program/program.h"

namespace mtf {

// Groups the gradient of a bias with the matmul that computes the gradient of
// the weight: the matmul reads the same operand and sums it as well.
//
//   before  %db = reduce(%dy) sum                    // [d_ff] of [batch, d_ff]
//           %dx = einsum(%dy, %w) sum{d_ff}
//           %dw = einsum(%x, %dy) sum{batch}         // [d_model, d_ff]
//   after   group bias_gradient(%db, %dw) of %dy
//
// %db sums over the dimensions that the matmul sums over, and keeps all rows or
// all columns of the matmul, contiguous in memory. The sum is computed in
// float32 from the stored numbers, and %db has the dtype of %dw, the only one
// that libraries write. Members lie in one window (fusion_window.h).
//
// Runs after fuse_rows, which takes the sums that cost less there. Takes linear
// time.
absl::Status FuseBiasGradients(const FusionCapabilities& device,
                               Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_FUSE_BIAS_GRADIENTS_H_
