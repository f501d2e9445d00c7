// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_REMOVE_TRIVIAL_COLLECTIVES_H_
#define LOWERING_PASSES_REMOVE_TRIVIAL_COLLECTIVES_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Removes collectives without effect: an all_slice that undoes the all_gather
// before it, an all_slice of a value that every device can compute sharded (a
// constant, an input, an iota, random numbers: these are then produced in the
// sharded layout), and every instruction whose result is never read.
//
//   before  %1 = all_gather(%0) d over{data}
//           %2 = all_slice(%1) d over{data}
//   after   readers of %2 read %0
//
// Runs after expand_reshards and fuse_reduce_scatters, which leave such pairs,
// and before bucket_all_reduces, so that no bucket contains an unread
// reduction.
absl::Status RemoveTrivialCollectives(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_REMOVE_TRIVIAL_COLLECTIVES_H_
