// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_REMOVE_TRIVIAL_COLLECTIVES_H_
#define LOWERING_PASSES_REMOVE_TRIVIAL_COLLECTIVES_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Removes what moves nothing: an all_slice that undoes the all_gather before
// it, an all_slice of a value that every device can make cut (a constant, an
// input, an iota, random numbers: they are made in the cut layout at once), and
// every instruction whose result nobody reads.
//
//   before  %1 = all_gather(%0) d over{data}
//           %2 = all_slice(%1) d over{data}
//   after   readers of %2 read %0
//
// Runs after expand_reshards and fuse_reduce_scatters, which leave such pairs,
// and before bucket_all_reduces, so that no bucket holds a dead sum.
absl::Status RemoveTrivialCollectives(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_REMOVE_TRIVIAL_COLLECTIVES_H_
