// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_HOIST_SLICES_H_
#define LOWERING_PASSES_HOIST_SLICES_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Moves an all_slice before the maps and renames that produce its operand, if
// that places it directly after an all_reduce over the same mesh axes. The two
// then become one reduce_scatter for half the bytes, and the maps work on
// shards. Other operands of those maps are sliced too, unless they lack the
// dimension, as a bias does.
//
//   before  %1 = all_reduce(%0) sum over{model}
//           %2 = map(%1, %bias) add
//           %3 = all_slice(%2) length over{model}
//   after   %1 = all_reduce(%0) sum over{model}
//           %4 = all_slice(%1) length over{model}
//           %3 = map(%4, %bias) add
//
// Runs after expand_reshards, which writes both collectives, and directly
// before fuse_reduce_scatters, which combines them. A value with a second
// reader is not sliced: the other reader needs all of it.
absl::Status HoistSlices(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_HOIST_SLICES_H_
