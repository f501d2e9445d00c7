// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_REGATHER_PARAMETERS_H_
#define LOWERING_PASSES_REGATHER_PARAMETERS_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Gathers a parameter that rests in shards just before it is read, drops the
// copy, and gathers it again where it is read next: in the backward pass. Casts
// and the like that only this parameter goes into are done again with it.
//
//   before  %w.whole = all_gather(%w) d over{data}
//           %y = einsum(%x, %w.whole)
//           ...                                 the other layers
//           %dx = einsum(%dy, %w.whole)
//   after   %w.whole = all_gather(%w) d over{data}
//           %y = einsum(%x, %w.whole)
//           ...
//           %w.whole_1 = all_gather(%w) d over{data}
//           %dx = einsum(%dy, %w.whole_1)
//
// A copy is kept for its next reader where no more than four other parameters
// are read between the two. So at most five copies wait at any time, however
// many layers there are: every copy that waits has its last reader behind that
// of the one that waits longest, and before the next reader of that one. Where
// the forward pass turns into the backward pass, the next reader is near; so is
// it in a loss by chunks, in the steps of a recurrent cell, in two branches
// that share a parameter.
//
// That is the reuse distance of caches, and of DeepSpeed's ZeRO-3
// (stage3_max_reuse_distance), counted in parameters, so that it needs no
// number that fits one size of model. FSDP gathers by modules, which lowering
// does not know: names must not change what is sent.
//
// Gathers that another section than [parameters] causes, and those of
// [parameters keep_gathered], stay one; the latter move to their first reader.
//
// Runs behind the passes that choose and remove collectives, because it counts
// who is left to read, and before bucket_all_reduces, which joins sums across
// the places that gathers go to.
absl::Status RegatherParameters(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_REGATHER_PARAMETERS_H_
