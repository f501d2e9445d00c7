// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/expand_reshards.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "lowering/program/shape_cache.h"

namespace mtf {
namespace {

// Builds a key from the layouts and sizes of a reshard: reshards with equal
// keys have equal paths.
class ReshardKeys {
 public:
  const std::string& Of(const ProgramValue& from, const TensorLayout& to) {
    key_ = shapes_.Get(from.shape,
                       [](const Shape& shape) { return shape.ToString(); });
    for (const TensorLayout* layout : {&from.layout, &to}) {
      for (const AxisList& axes : layout->dims) {
        for (int axis : axes) key_.push_back(static_cast<char>(axis));
        key_.push_back(static_cast<char>(kMaxMeshAxes));
      }
      static_assert(kMaxMeshAxes <= 8);
      key_.push_back(static_cast<char>(layout->unreduced));
      key_.push_back(static_cast<char>(layout->reduction));
    }
    return key_;
  }

 private:
  std::string key_;
  internal::ShapeCache<std::string> shapes_;
};

absl::string_view SuffixOf(CollectiveKind kind, ReduceKind reduction) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduceScatter:
      return reduction == ReduceKind::kSum   ? ".sum"
             : reduction == ReduceKind::kMax ? ".max"
                                             : ".min";
    case CollectiveKind::kAllGather:
      return ".gathered";
    case CollectiveKind::kAllSlice:
      return ".sliced";
    case CollectiveKind::kAllToAll:
      return ".all_to_all";
    case CollectiveKind::kCollectivePermute:
      return ".permuted";
  }
  return "";
}

// Inserts each instruction of `added` before the instruction at its index.
// Indices ascend.
void Insert(std::vector<std::pair<size_t, Instruction>> added,
            Program& program) {
  if (added.empty()) return;
  std::vector<Instruction> before = std::move(program.instructions);
  program.instructions.clear();
  program.instructions.reserve(before.size() + added.size());
  size_t next = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    for (; next < added.size() && added[next].first == i; ++next) {
      program.instructions.push_back(std::move(added[next].second));
    }
    program.instructions.push_back(std::move(before[i]));
  }
}

}  // namespace

absl::Status ExpandReshards(Program& program) {
  absl::flat_hash_map<std::string, std::vector<ReshardStep>> paths;
  ReshardKeys keys;
  // All steps of a path but the last, each with the index of its reshard.
  std::vector<std::pair<size_t, Instruction>> steps_before;
  for (size_t index = 0; index < program.instructions.size(); ++index) {
    Instruction& instruction = program.instructions[index];
    if (instruction.opcode != Opcode::kReshard) continue;
    const int result = instruction.results[0];
    int value = instruction.operands[0];
    const ProgramValue from = program.values[value];
    const TensorLayout target = program.values[result].layout;
    auto [entry, inserted] = paths.try_emplace(keys.Of(from, target));
    if (inserted) {
      entry->second =
          PlanReshard(program.grains, from.shape, from.layout, target);
    }
    const std::vector<ReshardStep>& path = entry->second;
    if (path.empty()) {
      return absl::InternalError(
          absl::StrCat("reshard of %", from.name, " changes nothing"));
    }
    // Writes one collective per step of the path.
    for (size_t i = 0; i < path.size(); ++i) {
      const ReshardStep& step = path[i];
      Instruction collective(
          OpcodeOf(step.kind),
          CollectiveAttributes{.axes = step.axes,
                               .reduction = from.layout.reduction,
                               .dim = step.dim,
                               .from_dim = step.from_dim});
      collective.operands = {value};
      collective.origin = instruction.origin;
      for (const Cause& cause : instruction.causes) {
        if (step.axes.Contains(cause.axis)) collective.causes.push_back(cause);
      }
      // A path may shard over an axis that neither layout uses, to send fewer
      // bytes, and gather over it again. Such a step serves every change of the
      // reshard.
      if (collective.causes.empty()) collective.causes = instruction.causes;
      // The last step replaces the reshard itself.
      if (i + 1 == path.size()) {
        collective.results = {result};
        instruction = std::move(collective);
        break;
      }
      value = program.AddValue(
          absl::StrCat(from.name, SuffixOf(step.kind, from.layout.reduction)),
          from.dtype, from.shape, step.layout);
      program.values[value].causes = from.causes;
      collective.results = {value};
      steps_before.emplace_back(index, std::move(collective));
    }
  }
  Insert(std::move(steps_before), program);
  return absl::OkStatus();
}

}  // namespace mtf
