// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_EXPAND_RESHARDS_H_
#define LOWERING_PASSES_EXPAND_RESHARDS_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Replaces every abstract reshard with the collectives that PlanReshard
// chooses.
//
//   before  %w.2 : f32[d:8, f:4] = reshard(%w)       %w [d:8/data, f:4]
//   after   %w.2 : f32[d:8, f:4] = all_gather(%w) d over{data}
//
// A collective inherits those causes of the reshard that name one of its axes.
// If there are none it inherits all of them: to send fewer bytes, the path
// temporarily shards a dimension over axes that neither layout uses.
//
//   before  %z : f32[h:16] = reshard(%y) for{b/data}    %y unreduced{data:4}
//   after   %y.sliced : f32[h:16/model] unreduced{data} =
//               all_slice(%y) h over{model} for{b/data}
//           %y.sum : f32[h:16/model] =
//               all_reduce(%y.sliced) sum over{data} for{b/data}
//           %z : f32[h:16] = all_gather(%y.sum) h over{model} for{b/data}
//
// All searches of a program together try a limited number of collectives, which
// only meshes of five axes and more reach. The reshards that may then send more
// bytes than necessary are named in Program::notices.
//
// Runs after delay_all_reduces, which moves reshards while each is still one
// instruction, and before every pass that looks at collectives.
absl::Status ExpandReshards(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_EXPAND_RESHARDS_H_
