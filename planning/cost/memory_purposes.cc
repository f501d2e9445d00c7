// SPDX-License-Identifier: Apache-2.0
//
// FindPurposes: follows values forward from the variables they are copies of,
// and backward from the values that are written to variables.
#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "lowering/program/readers.h"
#include "planning/cost/lifetimes.h"
#include "planning/cost/memory_use.h"

namespace mtf::internal {
namespace {

class PurposeFinder {
 public:
  explicit PurposeFinder(const Program& program)
      : program_(program),
        producers_(FindProducers(program)),
        kinds_(program.values.size(), MemoryKind::kActivation),
        in_update_(program.values.size(), false) {}

  std::vector<MemoryKind> Run() && {
    absl::flat_hash_set<absl::string_view> state;
    for (const ProgramVariable& variable : program_.variables) {
      if (variable.section == RuleSection::kDefault) {
        state.insert(variable.name);
      }
    }
    for (const Instruction& write : program_.instructions) {
      if (write.opcode != Opcode::kWriteVariable) continue;
      // State is not updated from gradients.
      if (state.contains(write.Get<NameAttributes>().name)) continue;
      MarkUpdate(write.operands[0], program_.values[write.results[0]].shape);
    }
    for (const Instruction& instruction : program_.instructions) {
      for (int result : instruction.results) {
        kinds_[result] = KindOf(instruction, result);
      }
    }
    return std::move(kinds_);
  }

 private:
  bool IsCopyOfVariable(int value) const {
    return kinds_[value] == MemoryKind::kParameter ||
           kinds_[value] == MemoryKind::kCopy;
  }

  // Marks the values of the dimensions of `shape` that an update is computed
  // from. Updates are elementwise, with gradients reduced and shards gathered.
  void MarkUpdate(int written, const Shape& shape) {
    std::vector<int> open = {written};
    while (!open.empty()) {
      const int value = open.back();
      open.pop_back();
      if (in_update_[value] || producers_[value] < 0 ||
          !program_.values[value].shape.SameDimensions(shape)) {
        continue;
      }
      const Instruction& producer = program_.instructions[producers_[value]];
      if (IsSource(producer.opcode)) continue;
      in_update_[value] = true;
      if (IsCollective(producer.opcode)) {
        open.push_back(OperandOf(producer, value));
      } else if (IsElementwise(producer.opcode) ||
                 CopiesToOrFromHost(producer.opcode)) {
        open.insert(open.end(), producer.operands.begin(),
                    producer.operands.end());
      }
    }
  }

  // The operand of a (bucketed) collective that becomes `result`.
  static int OperandOf(const Instruction& collective, int result) {
    const auto position =
        std::find(collective.results.begin(), collective.results.end(), result);
    return collective.operands[position - collective.results.begin()];
  }

  // Called in program order: depends on the kinds of the operands.
  MemoryKind KindOf(const Instruction& instruction, int result) const {
    if (instruction.opcode == Opcode::kReadVariable ||
        instruction.opcode == Opcode::kWriteVariable) {
      return MemoryKind::kParameter;
    }
    // Count the kinds of operands that have the dimensions of the result.
    bool variable = false, gradient = false, other = false;
    const auto count = [&](int operand) {
      const MemoryKind kind = kinds_[operand];
      variable = variable || IsCopyOfVariable(operand);
      gradient = gradient || kind == MemoryKind::kGradient;
      other = other || kind == MemoryKind::kActivation;
    };
    if (IsCollective(instruction.opcode)) {
      count(OperandOf(instruction, result));
    } else if (OnlyMoves(instruction.opcode) ||
               instruction.opcode == Opcode::kPad ||
               instruction.opcode == Opcode::kTakeRows ||
               instruction.opcode == Opcode::kPlaceRows ||
               instruction.opcode == Opcode::kUpdateSlice) {
      count(instruction.operands[0]);
    } else if (IsElementwise(instruction.opcode)) {
      for (int operand : instruction.operands) {
        if (HasDimensionsOf(operand, result)) count(operand);
      }
    }
    // An update is computed from variables and gradients.
    if (in_update_[result]) {
      return variable ? MemoryKind::kCopy : MemoryKind::kGradient;
    }
    if (other || !(variable || gradient)) return MemoryKind::kActivation;
    return variable ? MemoryKind::kCopy : MemoryKind::kGradient;
  }

  // Excludes scalars such as a learning rate.
  bool HasDimensionsOf(int operand, int result) const {
    return program_.values[operand].shape.SameDimensions(
        program_.values[result].shape);
  }

  const Program& program_;
  std::vector<int> producers_;
  std::vector<MemoryKind> kinds_;
  std::vector<bool> in_update_;
};

}  // namespace

std::vector<MemoryKind> FindPurposes(const Program& program) {
  return PurposeFinder(program).Run();
}

}  // namespace mtf::internal
