// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_PLAN_RESHAPES_H_
#define LOWERING_PASSES_PLAN_RESHAPES_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Chooses the layouts of the two sides of each merge and split of dimensions,
// between which the reshape sends nothing, so that the reshards around it send
// the fewest bytes. The recorder gathers what does not line up.
//
//   before  %1 : f32[a:8, c:64] = reshard(%0)        %0 is [a:8, c:64/m]
//           %2 : f32[ac:512] = reshape(%1)
//           %3 : f32[ac:512/m] = reshard(%2)
//   after   %1 : f32[a:8/m, c:64] = reshard(%0)      an all_to_all
//           %2 : f32[ac:512/m] = reshape(%1)
//
// A dimension may be sharded here over an axis that no rule gives it if that
// changes no padding anywhere: Program::grains then allows that axis.
//
// Runs after delay_all_reduces, which moves reductions across reshapes, and
// narrow_reshards, and before expand_reshards, while each reshard is one
// instruction.
absl::Status PlanReshapes(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_PLAN_RESHAPES_H_
