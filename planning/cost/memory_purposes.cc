// SPDX-License-Identifier: Apache-2.0
//
// What each value of a program is for, found by following it: from variables
// forward to what is made of one alone, and from what is written to variables
// back to where it comes from.
#include <algorithm>
#include <vector>

#include "lowering/program/readers.h"
#include "planning/cost/lifetimes.h"
#include "planning/cost/memory_use.h"

namespace mtf::internal {
namespace {

class Purposes {
 public:
  explicit Purposes(const Program& program)
      : program_(program),
        producers_(FindProducers(program)),
        kinds_(program.values.size(), MemoryKind::kActivation),
        in_update_(program.values.size(), false) {}

  std::vector<MemoryKind> Run() && {
    for (const Instruction& write : program_.instructions) {
      if (write.opcode != Opcode::kWriteVariable) continue;
      FollowBack(write.operands[0], program_.values[write.results[0]].shape);
    }
    for (const Instruction& instruction : program_.instructions) {
      for (int result : instruction.results) {
        kinds_[result] = KindOf(instruction, result);
      }
    }
    return std::move(kinds_);
  }

 private:
  bool IsOfVariable(int value) const {
    return kinds_[value] == MemoryKind::kParameter ||
           kinds_[value] == MemoryKind::kCopy;
  }

  // An update is elementwise, with gradients summed and shards gathered on the
  // way: marks what it consists of, in the shape of what is written.
  void FollowBack(int written, const Shape& shape) {
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
      } else if (IsElementwise(producer.opcode)) {
        open.insert(open.end(), producer.operands.begin(),
                    producer.operands.end());
      }
    }
  }

  // Of several values that are summed in one call, the one that becomes this.
  static int OperandOf(const Instruction& collective, int result) {
    const auto place =
        std::find(collective.results.begin(), collective.results.end(), result);
    return collective.operands[place - collective.results.begin()];
  }

  // In program order, as the kinds of operands decide.
  MemoryKind KindOf(const Instruction& instruction, int result) const {
    if (instruction.opcode == Opcode::kReadVariable ||
        instruction.opcode == Opcode::kWriteVariable) {
      return MemoryKind::kParameter;
    }
    // Purposes go from operands that fill the result, or that are all of it.
    bool variable = false, gradient = false, other = false;
    const auto count = [&](int operand) {
      const MemoryKind kind = kinds_[operand];
      variable = variable || IsOfVariable(operand);
      gradient = gradient || kind == MemoryKind::kGradient;
      other = other || kind == MemoryKind::kActivation;
    };
    if (IsCollective(instruction.opcode)) {
      count(OperandOf(instruction, result));
    } else if (OnlyMoves(instruction.opcode) ||
               instruction.opcode == Opcode::kPad) {
      count(instruction.operands[0]);
    } else if (IsElementwise(instruction.opcode)) {
      for (int operand : instruction.operands) {
        if (Fills(operand, result)) count(operand);
      }
    }
    // What an update is made of beside variables are gradients.
    if (in_update_[result]) {
      return variable ? MemoryKind::kCopy : MemoryKind::kGradient;
    }
    if (other || !(variable || gradient)) return MemoryKind::kActivation;
    return variable ? MemoryKind::kCopy : MemoryKind::kGradient;
  }

  // Numbers such as a learning rate are no part of what they scale.
  bool Fills(int operand, int result) const {
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
  return Purposes(program).Run();
}

}  // namespace mtf::internal
