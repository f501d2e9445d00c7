// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_FUSE_CONVOLUTIONS_H_
#define LOWERING_PASSES_FUSE_CONVOLUTIONS_H_

#include "absl/status/status.h"
#include "lowering/fusion/fusion_capabilities.h"
#include "lowering/program/program.h"

namespace mtf {

// Groups the windows of an image and the einsum that reads them, which are one
// convolution, so that no windows are in memory:
//
//   before  %rows = place_rows(%x) height ...    // zeros around the image
//           %windows = windows(%rows) height, kh of halo
//           %y = einsum(%windows, %filter) sum{kh, in}
//           ...
//           %dfilter = einsum(%windows, %dy) sum{batch, height}
//   after   %rows = place_rows(%x) height ...
//           %windows = windows(%rows) height, kh of halo
//           %y = einsum(%windows, %filter) sum{kh, in}
//           ...
//           %rows_1 = place_rows(%x) height ...
//           %windows_1 = windows(%rows_1) height, kh of halo
//           %dfilter = einsum(%windows_1, %dy) sum{batch, height}
//           group convolution(%rows, %windows, %y)
//           group convolution(%rows_1, %windows_1, %dfilter)
//
// and likewise an einsum with the fold_windows that follow it, the gradient of
// %x. Windows that are read several times, or computed before another operand
// of the einsum, are copied to the einsum: a step keeps the image for the
// gradient of the filter, not its windows. lowering/program/convolution_spec.h
// says which chains are convolutions.
//
// Runs after overlap_collectives, which moves instructions, and before the
// other fusion passes, which may take the einsum. Takes linear time.
absl::Status FuseConvolutions(const FusionCapabilities& device,
                              Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_FUSE_CONVOLUTIONS_H_
