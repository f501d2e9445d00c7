// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_FUSE_POOLS_H_
#define LOWERING_PASSES_FUSE_POOLS_H_

#include "absl/status/status.h"
#include "lowering/fusion/fusion_capabilities.h"
#include "lowering/program/program.h"

namespace mtf {

// Groups windows with their reduction, and what gives the elements of windows
// their shares of a gradient with the fold_windows that adds them up, so that
// no windows are in memory:
//
//   before  %w = windows(%x) height, height-window of height stride 2
//           %y = reduce(%w) max
//           ...
//           %hit = map(%w, %y) equal
//           %hits = reduce(%hit) sum [cast.f32($0)] over [height,
//           height-window] %share = map(%dy, %hits) div %g = map(%hit, %share)
//           [literal.f32(0); select($0, $1, $2)] %dx = fold_windows(%g) height,
//           height-window of height stride 2
//   after   %w = windows(%x) height, height-window of height stride 2
//           %y = reduce(%w) max
//           ...
//           %w_1 = windows(%x) height, height-window of height stride 2
//           %hit = map(%w_1, %y) equal
//           ...
//           group pool(%w, %y)
//           group pool(%w_1, %hit, %hits, %share, %g, %dx)
//
// Reductions along several dimensions, each of the results of the one before,
// are one group. So is each with its padding (place_rows), and with the map
// that alone reads its result, as for an average. Windows that are read several
// times, or computed before another operand of their group, are copied
// (copy_windows.h). lowering/program/pool_spec.h says which instructions are
// poolings.
//
// Runs after fuse_convolutions, which takes the windows that an einsum reads,
// and before fuse_rows, which would take the maps and reductions. Takes linear
// time.
absl::Status FusePools(const FusionCapabilities& device, Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_FUSE_POOLS_H_
