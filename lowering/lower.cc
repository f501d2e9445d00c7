// SPDX-License-Identifier: Apache-2.0
#include "lowering/lower.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lowering/emit/emit_program.h"
#include "lowering/passes/bucket_all_reduces.h"
#include "lowering/passes/delay_all_reduces.h"
#include "lowering/passes/expand_reshards.h"
#include "lowering/passes/fuse_maps.h"
#include "lowering/passes/fuse_reduce_scatters.h"
#include "lowering/passes/hoist_slices.h"
#include "lowering/passes/narrow_reshards.h"
#include "lowering/passes/overlap_collectives.h"
#include "lowering/passes/plan_buffers.h"
#include "lowering/passes/plan_einsums.h"
#include "lowering/passes/plan_reshapes.h"
#include "lowering/passes/regather_parameters.h"
#include "lowering/passes/rematerialize_maps.h"
#include "lowering/passes/remove_trivial_collectives.h"
#include "lowering/passes/shard_shapes.h"
#include "lowering/verify/verify_program.h"

namespace mtf {
namespace {

struct Pass {
  absl::string_view name;
  absl::Status (*run)(Program&);
};

// All passes, in order. The header of each pass says why it stands where it
// stands.
constexpr Pass kPasses[] = {
    // Global shapes, abstract reshards.
    {"delay_all_reduces", DelayAllReduces},
    {"narrow_reshards", NarrowReshards},
    {"plan_reshapes", PlanReshapes},
    // Reshards become collectives. Pairs of collectives are replaced by cheaper
    // ones and needless ones removed, sharded parameters are gathered for each
    // use, and small reductions are combined.
    {"expand_reshards", ExpandReshards},
    {"hoist_slices", HoistSlices},
    {"fuse_reduce_scatters", FuseReduceScatters},
    {"remove_trivial_collectives", RemoveTrivialCollectives},
    {"regather_parameters", RegatherParameters},
    {"bucket_all_reduces", BucketAllReduces},
    // From here on shapes are those of one device.
    {"shard_shapes", ShardShapes},
    {"fuse_maps", FuseMaps},
    {"rematerialize_maps", RematerializeMaps},
    {"plan_einsums", PlanEinsums},
    {"overlap_collectives", OverlapCollectives},
    {"plan_buffers", PlanBuffers},
};

}  // namespace

std::vector<std::string> PassNames() {
  std::vector<std::string> names;
  for (const Pass& pass : kPasses) names.emplace_back(pass.name);
  return names;
}

namespace {

absl::Status UnknownPassError(absl::string_view name) {
  const std::vector<std::string> names = PassNames();
  const std::string nearest = NearestName(name, names);
  return absl::NotFoundError(absl::StrCat(
      "no pass \"", name, "\"",
      nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?"),
      "\n  passes   ", absl::StrJoin(names, ", ")));
}

}  // namespace

absl::Status RunPass(absl::string_view name, Program& program) {
  for (const Pass& pass : kPasses) {
    if (pass.name != name) continue;
    MTF_RETURN_IF_ERROR(pass.run(program));
    return VerifyProgram(program);
  }
  return UnknownPassError(name);
}

std::string PassBeforePlanBuffers() {
  const std::vector<std::string> passes = PassNames();
  return passes[passes.size() - 2];
}

absl::StatusOr<Program> Lower(const Graph& graph, const LayoutBinding& binding,
                              const Targets& targets,
                              const LowerOptions& options) {
  MTF_ASSIGN_OR_RETURN(
      Program program,
      EmitProgram(graph, binding, targets, {.attention = options.attention}));
  return RunPasses(std::move(program), options);
}

absl::StatusOr<Program> RunPasses(Program program,
                                  const LowerOptions& options) {
  const std::vector<std::string> names = PassNames();
  if (!options.last_pass.empty() && options.last_pass != "emit_program" &&
      std::find(names.begin(), names.end(), options.last_pass) == names.end()) {
    return UnknownPassError(options.last_pass);
  }
  if (options.verify) MTF_RETURN_IF_ERROR(VerifyProgram(program));
  if (options.after_pass) options.after_pass("emit_program", program);
  if (options.last_pass == "emit_program") return program;
  for (const Pass& pass : kPasses) {
    MTF_RETURN_IF_ERROR(pass.run(program));
    if (options.verify) {
      const absl::Status valid = VerifyProgram(program);
      if (!valid.ok()) {
        return absl::Status(valid.code(), absl::StrCat("after pass ", pass.name,
                                                       ": ", valid.message()));
      }
    }
    if (options.after_pass) options.after_pass(pass.name, program);
    if (options.last_pass == pass.name) return program;
  }
  return program;
}

}  // namespace mtf
