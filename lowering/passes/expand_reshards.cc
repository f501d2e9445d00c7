// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/expand_reshards.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "layouts/reshard_path.h"
#include "layouts/text_items.h"
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

// The paths of the reshards of a program, one for each key.
class PlannedReshards {
 public:
  explicit PlannedReshards(const Program& program) {
    ReshardKeys keys;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const Instruction& reshard = program.instructions[i];
      if (reshard.opcode != Opcode::kReshard) continue;
      const ProgramValue& from = program.values[reshard.operands[0]];
      const ProgramValue& to = program.values[reshard.results[0]];
      const bool is_new =
          indices_.try_emplace(keys.Of(from, to.layout), indices_.size())
              .second;
      if (is_new) reshards_.push_back(i);
    }
    // The reshards share a limit: each gets its part of what is left, so that
    // many short searches leave more for the long ones.
    int64_t left = kMostMovesOfProgram;
    for (size_t i = 0; i < reshards_.size(); ++i) {
      const Instruction& reshard = program.instructions[reshards_[i]];
      const ProgramValue& from = program.values[reshard.operands[0]];
      const int64_t part = left / static_cast<int64_t>(reshards_.size() - i);
      plans_.push_back(SearchReshard(
          program.grains, from.shape, from.layout,
          program.values[reshard.results[0]].layout,
          std::clamp(part, kLeastMovesOfReshard, kMostReshardMoves)));
      left = std::max<int64_t>(0, left - plans_.back().moves);
    }
  }

  const std::vector<ReshardStep>& PathOf(const std::string& key) const {
    return plans_[indices_.at(key)].steps;
  }

  // Names the reshards whose search stopped at its limit; "" if none did.
  std::string Notice(const Program& program) const {
    constexpr int kMostNamed = 3;
    int count = 0;
    std::string named;
    for (size_t i = 0; i < plans_.size(); ++i) {
      if (plans_[i].cheapest || ++count > kMostNamed) continue;
      const Instruction& reshard = program.instructions[reshards_[i]];
      const ProgramValue& from = program.values[reshard.operands[0]];
      const ProgramValue& to = program.values[reshard.results[0]];
      const std::string origin = program.OriginText(reshard);
      absl::StrAppend(
          &named,
          DetailLine("reshard",
                     absl::StrCat(
                         "%", from.name, " ",
                         LayoutText(program.mesh, from.shape, from.layout),
                         " to ", LayoutText(program.mesh, to.shape, to.layout),
                         origin.empty() ? "" : absl::StrCat("   ", origin))));
    }
    if (count == 0) return "";
    return absl::StrCat(
        count == 1 ? "1 reshard" : absl::StrCat(count, " reshards"),
        " may send more bytes than necessary: on mesh ",
        Quoted(program.mesh.ToString()),
        " the search for the cheapest collectives stopped at its limit", named,
        count > kMostNamed
            ? DetailLine("reshard",
                         absl::StrCat("and ", count - kMostNamed, " more"))
            : "",
        DetailLine("help",
                   "give the mesh fewer axes, or a dimension the same axes in "
                   "every section of the layout"));
  }

 private:
  // About 0.4 s, and 8 ms. A search on a mesh of four axes takes fewer moves
  // than the second.
  static constexpr int64_t kMostMovesOfProgram = 1000000;
  static constexpr int64_t kLeastMovesOfReshard = 20000;

  absl::flat_hash_map<std::string, size_t> indices_;  // by key; only looked up
  std::vector<size_t> reshards_;    // the first instruction of each key
  std::vector<ReshardPlan> plans_;  // of reshards_
};

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
  const PlannedReshards planned(program);
  if (std::string notice = planned.Notice(program); !notice.empty()) {
    program.notices.push_back(std::move(notice));
  }
  ReshardKeys keys;
  // All steps of a path but the last, each with the index of its reshard.
  std::vector<std::pair<size_t, Instruction>> steps_before;
  for (size_t index = 0; index < program.instructions.size(); ++index) {
    Instruction& instruction = program.instructions[index];
    if (instruction.opcode != Opcode::kReshard) continue;
    const int result = instruction.results[0];
    int value = instruction.operands[0];
    const ProgramValue from = program.values[value];
    const std::vector<ReshardStep>& path =
        planned.PathOf(keys.Of(from, program.values[result].layout));
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
