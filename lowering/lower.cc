// SPDX-License-Identifier: Apache-2.0
#include "lowering/lower.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lowering/emit/emit_program.h"
#include "lowering/passes/batch_maps.h"
#include "lowering/passes/bucket_all_reduces.h"
#include "lowering/passes/delay_all_reduces.h"
#include "lowering/passes/expand_reshards.h"
#include "lowering/passes/fuse_bias_gradients.h"
#include "lowering/passes/fuse_convolutions.h"
#include "lowering/passes/fuse_epilogues.h"
#include "lowering/passes/fuse_maps.h"
#include "lowering/passes/fuse_pools.h"
#include "lowering/passes/fuse_reduce_scatters.h"
#include "lowering/passes/fuse_rows.h"
#include "lowering/passes/hoist_slices.h"
#include "lowering/passes/narrow_reshards.h"
#include "lowering/passes/overlap_collectives.h"
#include "lowering/passes/place_host_copies.h"
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

// A pass. Those that write groups also read what the device fuses.
class Pass {
 public:
  using Run = absl::Status (*)(Program&);
  using Fuse = absl::Status (*)(const FusionCapabilities&, Program&);

  constexpr Pass(absl::string_view name, Run run) : name(name), run_(run) {}
  constexpr Pass(absl::string_view name, Fuse fuse) : name(name), fuse_(fuse) {}

  absl::Status operator()(const FusionCapabilities& fusion,
                          Program& program) const {
    return run_ != nullptr ? run_(program) : fuse_(fusion, program);
  }

  bool only_writes_groups() const { return fuse_ != nullptr; }

  absl::string_view name;

 private:
  Run run_ = nullptr;
  Fuse fuse_ = nullptr;
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
    {"place_host_copies", PlaceHostCopies},
    // From here on no instruction is inserted, removed or moved, except for
    // windows that convolutions and poolings share. Each pass groups
    // instructions that the
    // passes before it left.
    {"fuse_convolutions", FuseConvolutions},
    {"fuse_pools", FusePools},
    {"fuse_epilogues", FuseEpilogues},
    {"fuse_rows", FuseRows},
    {"fuse_bias_gradients", FuseBiasGradients},
    {"batch_maps", BatchMaps},
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

absl::Status RunPass(absl::string_view name, Program& program,
                     const FusionCapabilities& fusion) {
  for (const Pass& pass : kPasses) {
    if (pass.name != name) continue;
    MTF_RETURN_IF_ERROR(pass(fusion, program));
    return VerifyProgram(program);
  }
  return UnknownPassError(name);
}

absl::Status FuseFor(const FusionCapabilities& fusion, Program& program) {
  for (const auto fuse : {FuseConvolutions, FusePools, FuseEpilogues, FuseRows,
                          FuseBiasGradients, BatchMaps}) {
    MTF_RETURN_IF_ERROR(fuse(fusion, program));
  }
  return PlanBuffers(program);
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
    const size_t groups = program.groups.size();
    MTF_RETURN_IF_ERROR(pass(options.fusion, program));
    const bool is_unchanged =
        pass.only_writes_groups() && program.groups.size() == groups;
    if (options.verify && !is_unchanged) {
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
