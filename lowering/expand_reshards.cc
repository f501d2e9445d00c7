// SPDX-License-Identifier: Apache-2.0
#include "lowering/expand_reshards.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace mtf {
namespace {

// Layouts and sizes as bytes: equal keys have equal paths.
std::string KeyOf(const ProgramValue& from, const TensorLayout& to) {
  std::string key;
  for (const TensorLayout* layout : {&from.layout, &to}) {
    for (const AxisList& axes : layout->dims) {
      for (int axis : axes) key.push_back(static_cast<char>(axis));
      key.push_back(static_cast<char>(kMaxMeshAxes));
    }
    absl::StrAppend(&key, layout->unreduced, "r",
                    static_cast<int>(layout->reduction), ";");
  }
  for (const Dimension& dim : from.shape) {
    absl::StrAppend(&key, dim.name, ":", dim.size, ",");
  }
  return key;
}

absl::string_view SuffixOf(CollectiveKind kind, ReduceKind reduction) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduceScatter:
      return reduction == ReduceKind::kSum   ? ".sum"
             : reduction == ReduceKind::kMax ? ".max"
                                             : ".min";
    case CollectiveKind::kAllGather:
      return ".whole";
    case CollectiveKind::kAllSlice:
      return ".cut";
    case CollectiveKind::kAllToAll:
      return ".turned";
    case CollectiveKind::kCollectivePermute:
      return ".moved";
  }
  return "";
}

}  // namespace

absl::Status ExpandReshards(Program& program) {
  absl::flat_hash_map<std::string, std::vector<ReshardStep>> paths;
  std::vector<Instruction> before = std::move(program.instructions);
  program.instructions.clear();
  program.instructions.reserve(before.size());
  for (Instruction& instruction : before) {
    if (instruction.opcode != Opcode::kReshard) {
      program.instructions.push_back(std::move(instruction));
      continue;
    }
    const int result = instruction.results[0];
    int value = instruction.operands[0];
    const ProgramValue from = program.values[value];
    const TensorLayout target = program.values[result].layout;
    auto [entry, inserted] = paths.try_emplace(KeyOf(from, target));
    if (inserted) {
      entry->second =
          PlanReshard(program.grains, from.shape, from.layout, target);
    }
    const std::vector<ReshardStep>& path = entry->second;
    if (path.empty()) {
      return absl::InternalError(
          absl::StrCat("reshard of %", from.name, " changes nothing"));
    }
    for (size_t i = 0; i < path.size(); ++i) {
      const ReshardStep& step = path[i];
      Instruction collective;
      collective.opcode = OpcodeOf(step.kind);
      collective.operands = {value};
      collective.reduce_kind = from.layout.reduction;
      collective.dim = step.dim;
      collective.from_dim = step.from_dim;
      collective.axes = step.axes;
      collective.origin = instruction.origin;
      for (const Cause& cause : instruction.causes) {
        if (step.axes.Contains(cause.axis)) collective.causes.push_back(cause);
      }
      // A path may cut over an axis that neither end uses, to send less, and
      // gather over it again: that is there for all that the reshard changes.
      if (collective.causes.empty()) collective.causes = instruction.causes;
      if (i + 1 < path.size()) {
        value = program.AddValue(
            absl::StrCat(from.name, SuffixOf(step.kind, from.layout.reduction)),
            from.dtype, from.shape, step.layout);
        program.values[value].causes = from.causes;
      } else {
        value = result;
      }
      collective.results = {value};
      program.instructions.push_back(std::move(collective));
    }
  }
  return absl::OkStatus();
}

}  // namespace mtf
