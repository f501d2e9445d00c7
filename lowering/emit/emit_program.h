// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_EMIT_EMIT_PROGRAM_H_
#define LOWERING_EMIT_EMIT_PROGRAM_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lowering/emit/layout_binding.h"
#include "lowering/program/fused_attention.h"
#include "lowering/program/program.h"
#include "mtf/graph.h"

namespace mtf {

// What a program computes. Operations that it does not need are not lowered.
struct Targets {
  // Returned to the caller under their names: global tensors, or with
  // `fetch_shards` each rank's shard in its layout (unreduced values are
  // reduced).
  std::vector<Tensor> fetches = {};
  bool fetch_shards = false;
  // Tensors to execute for their effect: Assigns, or tensors that depend on
  // one.
  std::vector<Tensor> updates = {};
  // Instead of a step: give every variable of the graph its initial value.
  bool initialize = false;
  // With `initialize`: the ids of variables that get no initial value, because
  // the caller sets them. The program lists them and does not write them.
  std::vector<int> set_by_caller = {};
};

struct EmitOptions {
  // Which attentions are instructions of the device.
  AttentionSupport attention = AttentionSupport::kNone;
  // Maps each operation to the one whose value it shares; if empty, every
  // operation has its own value.
  absl::Span<const int> representatives = {};
};

// Writes the operations that `targets` need as instructions over global shapes.
// Every value gets the layout that the rules give its dimensions. An operand in
// another layout, or unreduced, is read through an abstract reshard. The passes
// delay, fuse and expand; this function does not.
//
// The observations of the graph (prints and summaries) of tensors that the
// targets need are returned too, as global tensors. A program that initializes
// has none.
//
// Returns kInvalidArgument with the user's line if two dimensions of one
// operation are sharded over one mesh axis, or if an update sets no variable.
absl::StatusOr<Program> EmitProgram(const Graph& graph,
                                    const LayoutBinding& binding,
                                    const Targets& targets,
                                    const EmitOptions& options = {});

}  // namespace mtf

#endif  // LOWERING_EMIT_EMIT_PROGRAM_H_
