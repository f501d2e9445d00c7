// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_PLACE_HOST_COPIES_H_
#define LOWERING_PASSES_PLACE_HOST_COPIES_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Copies the variables that a layout offloads to host memory: each to device
// memory where it is read, and its new value to the host where it is written.
//
//   before  %m : f32[io:8] = read_variable m [optimizer offload]
//           ...
//           %m.2 : f32[io:8] = map(%m, %g) [...]
//           %m.3 : f32[io:8] = write_variable(%m.2) m [optimizer offload]
//   after   %m : f32[io:8] = read_variable m [optimizer offload]
//           ...
//           %m_1 : f32[io:8] = copy_to_device(%m)
//           %m.2 : f32[io:8] = map(%m_1, %g) [...]
//           %m.2_1 : f32[io:8] = copy_to_host(%m.2)
//           %m.3 : f32[io:8] = write_variable(%m.2_1) m [optimizer offload]
//
// A variable is copied to the device right before it is read, and again if more
// than kMaxIdleInstructions separate two readers, so that a parameter does not
// take device memory between the forward and the backward pass. If the reader
// may be a later member of a group, as a bias is of an epilogue, the copy
// stands before the einsum or reduction that the group may begin with, because
// groups run at their first member. The new value is copied where it is
// computed, but after the last reader of the old one and after the last
// instruction that can fail, so that a failed step changes no variable.
//
// Runs after overlap_collectives, which moves instructions, and before the
// passes that group them: a group contains no copy, so the operands of its
// members are in device memory.
absl::Status PlaceHostCopies(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_PLACE_HOST_COPIES_H_
