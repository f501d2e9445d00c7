// SPDX-License-Identifier: Apache-2.0
#include "lowering/verify/verify_causes.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "mtf/status.h"

namespace mtf::internal {
namespace {

bool ShardsOver(const LayoutRule& rule, const std::string& axis) {
  return std::find(rule.axes.begin(), rule.axes.end(), axis) != rule.axes.end();
}

absl::Status VerifyCause(const Program& program, const Cause& cause) {
  if (cause.axis < 0 || cause.axis >= program.mesh.num_axes()) {
    return absl::InternalError("a cause names an axis that the mesh lacks");
  }
  const std::string& axis = program.mesh.axes()[cause.axis].name;
  if ((program.grains.AxesOf(cause.dimension) >> cause.axis & 1) == 0) {
    return absl::InternalError(absl::StrCat("the cause is dimension \"",
                                            cause.dimension, "\" over axis \"",
                                            axis, "\", which never shards it"));
  }
  if (cause.rule < 0) return absl::OkStatus();
  if (cause.rule >= static_cast<int>(program.rules.size())) {
    return absl::InternalError(absl::StrCat("the cause is rule ", cause.rule,
                                            " of ", program.rules.size()));
  }
  const LayoutRule& rule = program.rules[cause.rule];
  const auto fail = [&](absl::string_view why) {
    return absl::InternalError(absl::StrCat(
        "the cause is dimension \"", cause.dimension, "\" over axis \"", axis,
        "\" by rule ", cause.rule, ", ", rule.ToString(), ", ", why));
  };
  if (!ShardsOver(rule, axis)) return fail("which is not over that axis");
  // The rule may use another name of the same dimension.
  if (program.grains.Tied(rule.dimension, cause.dimension)) {
    return absl::OkStatus();
  }
  return fail("which shards another dimension");
}

}  // namespace

absl::Status VerifyCauses(const Program& program,
                          const Instruction& instruction) {
  if (instruction.causes.empty()) return absl::OkStatus();
  const bool collective = IsCollective(instruction.opcode);
  if (!collective && instruction.opcode != Opcode::kReshard) {
    return absl::InternalError("only reshards and collectives have causes");
  }
  int inside = 0;
  for (const Cause& cause : instruction.causes) {
    MTF_RETURN_IF_ERROR(VerifyCause(program, cause));
    if (collective &&
        instruction.Get<CollectiveAttributes>().axes.Contains(cause.axis)) {
      ++inside;
    }
  }
  // A collective over axes that neither end of its reshard uses has all causes
  // of the reshard (expand_reshards.h).
  if (collective && inside > 0 &&
      inside < static_cast<int>(instruction.causes.size())) {
    return absl::InternalError(
        "one cause is over the axes of the collective, another is not");
  }
  return absl::OkStatus();
}

}  // namespace mtf::internal
