// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_LOWER_H_
#define LOWERING_LOWER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lowering/emit/emit_program.h"
#include "lowering/emit/layout_binding.h"
#include "lowering/fusion/fusion_capabilities.h"
#include "lowering/program/fused_attention.h"
#include "lowering/program/program.h"
#include "mtf/graph.h"

namespace mtf {

struct LowerOptions {
  // Called after emission and after every pass with its name.
  std::function<void(absl::string_view pass, const Program& program)>
      after_pass = {};
  // Stops after the pass of this name, or after "emit_program"; "" runs all.
  std::string last_pass = "";
  // Which attentions are instructions of the device.
  AttentionSupport attention = AttentionSupport::kNone;
  // What the device runs as one kernel: the groups of the program, which its
  // memory is planned for.
  FusionCapabilities fusion = {};
  bool verify = true;
};

// Translates the part of `graph` that `targets` need into one SPMD program for
// every rank of the mesh. A pure function: the result is the same on every rank
// and in every process. Its time grows with the operations, not with the
// devices.
//
//   MTF_ASSIGN_OR_RETURN(LayoutBinding binding,
//                        BindLayout(graph, mesh, rules));
//   MTF_ASSIGN_OR_RETURN(
//       Program program,
//       Lower(graph, binding, {.fetches = {loss}, .updates = {step}}));
//
// Returns the graph's first error; kInvalidArgument, at the user's line, if two
// dimensions of one operation are sharded over one mesh axis, or if a fetch or
// an update is empty or belongs to another graph.
absl::StatusOr<Program> Lower(const Graph& graph, const LayoutBinding& binding,
                              const Targets& targets,
                              const LowerOptions& options = {});

// Runs the passes on `program`, which EmitProgram wrote: what Lower does after
// emission.
absl::StatusOr<Program> RunPasses(Program program,
                                  const LowerOptions& options = {});

// The names of the passes, in order.
std::vector<std::string> PassNames();

// Fuses a program for another device than it was lowered for: runs the fusion
// passes and plan_buffers again. `program` has run all passes.
absl::Status FuseFor(const FusionCapabilities& fusion, Program& program);

// Runs the pass called `name` on `program` and verifies the result, as in pass
// tests. Returns kNotFound with the nearest name if there is no such pass.
absl::Status RunPass(absl::string_view name, Program& program,
                     const FusionCapabilities& fusion = {});

}  // namespace mtf

#endif  // LOWERING_LOWER_H_
