// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_EXPAND_RESHARDS_H_
#define LOWERING_EXPAND_RESHARDS_H_

#include "absl/status/status.h"
#include "lowering/program.h"

namespace mtf {

// Writes every abstract reshard as the collectives that PlanReshard chooses.
//
//   before  %w.2 : f32[d:8, f:4] = reshard(%w)       %w [d:8/data, f:4]
//   after   %w.2 : f32[d:8, f:4] = all_gather(%w) d over{data}
//
// Runs after delay_all_reduces, which moves reshards while they are still one
// instruction, and before every pass that looks at collectives.
absl::Status ExpandReshards(Program& program);

}  // namespace mtf

#endif  // LOWERING_EXPAND_RESHARDS_H_
