// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/batch_maps.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lowering/program/is_no_op.h"
#include "mtf/map_expression.h"

namespace mtf {
namespace {

bool HaveSameElements(const ProgramValue& x, const ProgramValue& y) {
  return x.shape == y.shape && x.local == y.local;
}

// Whether a map can run as one loop over flat memory: each operand has the
// dimensions of the result or is a single number, and no step is an iota.
bool IsFlat(const Program& program, const Instruction& map) {
  const ProgramValue& result = program.values[map.results[0]];
  for (int operand : map.operands) {
    const ProgramValue& value = program.values[operand];
    if (value.local_elements() == 1) continue;
    if (!HaveSameElements(value, result)) return false;
  }
  for (const MapStep& step : ExpressionOf(map).steps) {
    if (step.function == ScalarFunction::kIota) return false;
  }
  return true;
}

// A batch under construction.
class Batch {
 public:
  // The arguments must outlive the object. `computed_at`: FindComputedAt.
  Batch(const FusionCapabilities::Maps& device, const Program& program,
        const std::vector<int>& computed_at)
      : device_(device), program_(program), computed_at_(computed_at) {}

  // Adds a map; returns false and changes nothing if it does not fit this
  // batch.
  bool Add(int index) {
    if (static_cast<int>(group_.members.size()) == device_.members) {
      return false;
    }
    const Instruction& map = program_.instructions[index];
    if (ReadsViewOfMember(map)) return false;
    const std::optional<size_t> section = SectionOf(map);
    if (!section.has_value()) return false;
    if (*section == sections_.size()) sections_.emplace_back();
    sections_[*section].push_back(index);
    section_of_[map.results[0]] = *section;
    group_.members.push_back(index);
    return true;
  }

  // The group of these maps.
  FusedGroup Group() && {
    group_.kind = MapGroup{std::move(sections_)};
    return std::move(group_);
  }
  size_t size() const { return group_.members.size(); }

 private:
  const ProgramValue& ResultOf(int index) const {
    return program_.values[program_.instructions[index].results[0]];
  }

  // Whether a map reads a value that is computed after the first member and is
  // not the result of a member itself, but a view of one.
  bool ReadsViewOfMember(const Instruction& map) const {
    return size() > 0 &&
           std::any_of(map.operands.begin(), map.operands.end(),
                       [this](int operand) {
                         return computed_at_[operand] >= group_.members[0] &&
                                !section_of_.contains(operand);
                       });
  }

  // The section of a map, which may be a new one; nullopt if the map does not
  // fit the batch.
  std::optional<size_t> SectionOf(const Instruction& map) {
    const ProgramValue& result = program_.values[map.results[0]];
    const bool number = result.local_elements() == 1;
    if (!device_.any_order && !IsFlat(program_, map)) return std::nullopt;
    if (size() > 0 && number != numbers_) return std::nullopt;
    // The section whose results it reads, if any.
    std::optional<size_t> section;
    for (int operand : map.operands) {
      const auto made = section_of_.find(operand);
      if (made == section_of_.end()) continue;
      const ProgramValue& value = program_.values[operand];
      const bool same_element = HaveSameElements(value, result) ||
                                (number && value.local_elements() == 1);
      if (!same_element || section.value_or(made->second) != made->second) {
        return std::nullopt;
      }
      section = made->second;
    }
    numbers_ = number;
    if (section.has_value()) return section;
    // The last section if its results have the dimensions of `result`, because
    // neighbouring maps are likely to share operands.
    const size_t count = sections_.size();
    const bool fits =
        count > 0 && HaveSameElements(ResultOf(sections_.back()[0]), result);
    return fits ? count - 1 : count;
  }

  const FusionCapabilities::Maps& device_;
  const Program& program_;
  const std::vector<int>& computed_at_;  // by value
  FusedGroup group_;
  std::vector<std::vector<int>> sections_;       // instructions
  absl::flat_hash_map<int, size_t> section_of_;  // by value
  bool numbers_ = false;                         // every result is one number
};

}  // namespace

absl::Status BatchMaps(const FusionCapabilities& device, Program& program) {
  EraseGroupsFrom<MapGroup>(program.groups);
  if (device.maps.members == 0) return absl::OkStatus();
  const std::vector<int> group_of = FindGroups(program);
  const std::vector<int> computed_at = FindComputedAt(program);
  std::vector<FusedGroup> groups;
  std::optional<Batch> batch;
  const auto close = [&] {
    if (batch.has_value() && batch->size() >= 2) {
      groups.push_back(std::move(*batch).Group());
    }
    batch.emplace(device.maps, program, computed_at);
  };
  close();
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const int index = static_cast<int>(i);
    if (instruction.opcode == Opcode::kMap && group_of[i] < 0) {
      if (batch->Add(index)) continue;
      close();
      batch->Add(index);
    } else if (group_of[i] >= 0 || !IsNoOp(program, instruction)) {
      close();
    }
  }
  close();
  AddGroups(std::move(groups), program);
  return absl::OkStatus();
}

}  // namespace mtf
