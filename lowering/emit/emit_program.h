// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_EMIT_EMIT_PROGRAM_H_
#define LOWERING_EMIT_EMIT_PROGRAM_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lowering/emit/layout_binding.h"
#include "lowering/program/program.h"
#include "mtf/graph.h"

namespace mtf {

// What a program computes. Only operations it needs are lowered.
struct Targets {
  // Returned to the caller under their names: whole tensors, or with
  // `fetch_shards` each rank's shard as it lies (unreduced sums are reduced).
  std::vector<Tensor> fetches = {};
  bool fetch_shards = false;
  // Assign or Group tensors whose effects are wanted.
  std::vector<Tensor> updates = {};
  // Instead of a step: give every variable of the graph its initial value.
  bool initialize = false;
};

// Writes the operations that `targets` need as instructions over global
// shapes. Every value gets the layout that the rules give its dimensions;
// where an operation meets a value in another layout, or still unreduced, an
// abstract reshard stands between them. Nothing is delayed, fused or expanded
// here: the passes do that.
//
// kInvalidArgument, at the user's line, where two dimensions of one operation
// are cut over one mesh axis.
absl::StatusOr<Program> EmitProgram(const Graph& graph,
                                    const LayoutBinding& binding,
                                    const Targets& targets,
                                    absl::Span<const int> representatives = {});

}  // namespace mtf

#endif  // LOWERING_EMIT_EMIT_PROGRAM_H_
