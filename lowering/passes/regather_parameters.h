// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_REGATHER_PARAMETERS_H_
#define LOWERING_PASSES_REGATHER_PARAMETERS_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf {

// Gathers a parameter stored in shards directly before it is read, frees the
// copy, and gathers it again before the next reader, typically in the backward
// pass. Casts and other cheap instructions that lead from the parameter to the
// reader are repeated with the gather.
//
//   before  %w.full = all_gather(%w) d over{data}
//           %y = einsum(%x, %w.full)
//           ...                                 the other layers
//           %dx = einsum(%dy, %w.full)
//   after   %w.full = all_gather(%w) d over{data}
//           %y = einsum(%x, %w.full)
//           ...
//           %w.full_1 = all_gather(%w) d over{data}
//           %dx = einsum(%dy, %w.full_1)
//
// A copy is kept for its next reader if at most four other parameters are read
// in between. So at most five copies are alive between reads, however many
// layers there are. The next reader is that near where the forward pass turns
// into the backward pass, in a loss computed by chunks, in the steps of a
// recurrent cell, and in two branches that share a parameter.
//
// This is the reuse distance of caches and of DeepSpeed's ZeRO-3
// (stage3_max_reuse_distance), counted in parameters so that no constant
// depends on the size of the model. FSDP gathers by module, which lowering does
// not know: names must not change what is sent.
//
// Gathers caused by a section other than [parameters], and those of [parameters
// keep_gathered], are not repeated; the latter move to their first reader.
//
// Runs after the passes that choose and remove collectives, because it counts
// the remaining readers, and before bucket_all_reduces, which combines
// reductions across the positions that gathers move to.
absl::Status RegatherParameters(Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_REGATHER_PARAMETERS_H_
