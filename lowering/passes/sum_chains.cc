// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/sum_chains.h"

#include <algorithm>
#include <cstdint>

#include "lowering/program/linearity.h"
#include "lowering/program/reader_lists.h"
#include "lowering/program/readers.h"

namespace mtf {
namespace {

// Each round takes linear time. Further ones would only find more sums.
constexpr int kMaxRounds = 16;

class ConvergenceFinder {
 public:
  explicit ConvergenceFinder(const Program& program)
      : program_(program),
        readers_(program),
        chain_ends_(FindChainEnds(program)),
        axes_(program.values.size(), 0),
        exits_(program.values.size(), -1),
        reduced_(program.values.size(), false) {}

  std::vector<bool> Run() {
    // That a value must be reduced keeps its readers from being delayed, and so
    // other values that these read.
    for (int round = 0; round < kMaxRounds; ++round) {
      FindAxes();
      if (!FindExits()) break;
    }
    std::vector<bool> converging(program_.values.size(), false);
    for (size_t v = 0; v < converging.size(); ++v) {
      converging[v] = axes_[v] != 0 && !reduced_[v];
    }
    return converging;
  }

 private:
  // The axes over which an instruction could leave its result unreduced,
  // because all its operands could be.
  AxisSet DelayedAxes(const Instruction& instruction) const {
    if (IsSumReduction(program_, instruction)) {
      return program_.values[instruction.operands[0]].layout.unreduced;
    }
    if (instruction.operands.empty() || instruction.results.size() != 1) {
      return 0;
    }
    const AxisSet axes = axes_[instruction.operands[0]];
    const ProgramValue& result = program_.values[instruction.results[0]];
    if (axes == 0 || result.layout.unreduced != 0 ||
        (result.layout.Sharded() & axes) != 0) {
      return 0;
    }
    int64_t largest = 0;
    absl::InlinedVector<DType, 4> dtypes;
    for (int operand : instruction.operands) {
      if (axes_[operand] != axes || reduced_[operand]) return 0;
      const ProgramValue& value = program_.values[operand];
      largest = std::max(largest, value.shape.num_elements());
      dtypes.push_back(value.dtype);
    }
    const bool grows = result.shape.num_elements() > largest;
    return !grows && IsLinear(instruction, dtypes) ? axes : 0;
  }

  void FindAxes() {
    for (const Instruction& instruction : program_.instructions) {
      const AxisSet axes = DelayedAxes(instruction);
      for (int result : instruction.results) axes_[result] = axes;
    }
  }

  // Where a use of `value` by an instruction is reduced: a value, or a chain,
  // counted after the values. `value` itself if before the instruction.
  int ExitOfUse(int value, int reader) const {
    const int end = chain_ends_[reader];
    const Instruction& last = program_.instructions[end < 0 ? reader : end];
    if (last.results.size() == 1 && axes_[last.results[0]] == axes_[value]) {
      return exits_[last.results[0]];
    }
    // In a chain, terms that are unreduced over the same axes are added first.
    return end < 0 ? value : static_cast<int>(program_.values.size()) + end;
  }

  // Returns whether a value was found that must be reduced.
  bool FindExits() {
    bool found = false;
    for (int i = static_cast<int>(program_.instructions.size()) - 1; i >= 0;
         --i) {
      for (int value : program_.instructions[i].results) {
        if (axes_[value] == 0) continue;
        int exit = -1;
        for (int reader : readers_[value]) {
          const int of_use = reduced_[value] ? value : ExitOfUse(value, reader);
          exit = exit < 0 || exit == of_use ? of_use : value;
          if (exit == value) break;
        }
        exits_[value] = exit < 0 ? value : exit;
        if (exits_[value] != value || reduced_[value]) continue;
        found = reduced_[value] = true;
      }
    }
    return found;
  }

  const Program& program_;
  const ReaderLists readers_;
  const std::vector<int> chain_ends_;
  std::vector<AxisSet> axes_;  // by value: the unreduced axes if delayed, or 0
  std::vector<int> exits_;     // by value with axes: see ExitOfUse
  std::vector<bool> reduced_;  // by value: it must be reduced
};

}  // namespace

bool IsSumTree(const Program& program, const Instruction& map) {
  if (map.opcode != Opcode::kMap) return false;
  const MapExpression& expression = map.Get<MapAttributes>().expression;
  if (expression.num_operands < 2) return false;
  for (const MapStep& step : expression.steps) {
    if (step.function != ScalarFunction::kAdd &&
        step.function != ScalarFunction::kSubtract) {
      return false;
    }
  }
  const ProgramValue& result = program.values[map.results[0]];
  absl::InlinedVector<int, 16> uses(
      expression.num_operands + expression.steps.size(), 0);
  for (const MapStep& step : expression.steps) {
    for (int argument : step.arguments) ++uses[argument];
  }
  for (size_t i = 0; i + 1 < uses.size(); ++i) {
    if (uses[i] != 1) return false;
  }
  for (int operand : map.operands) {
    if (!program.values[operand].shape.SameDimensions(result.shape)) {
      return false;
    }
  }
  return true;
}

absl::InlinedVector<bool, 8> SubtractedOperands(
    const MapExpression& expression) {
  // From the last step back to the operands.
  absl::InlinedVector<bool, 8> subtracted(
      expression.num_operands + expression.steps.size(), false);
  for (size_t i = expression.steps.size(); i-- > 0;) {
    const MapStep& step = expression.steps[i];
    const bool mine = subtracted[expression.num_operands + i];
    subtracted[step.arguments[0]] = mine;
    subtracted[step.arguments[1]] =
        mine != (step.function == ScalarFunction::kSubtract);
  }
  subtracted.resize(expression.num_operands);
  return subtracted;
}

std::vector<int> FindChainEnds(const Program& program) {
  std::vector<int> ends(program.instructions.size(), -1);
  const std::vector<int> readers = CountReaders(program);
  // By value: the end of the chain of a sum tree that reads it.
  std::vector<int> end_of_reader(program.values.size(), -1);
  for (int i = static_cast<int>(ends.size()) - 1; i >= 0; --i) {
    const Instruction& instruction = program.instructions[i];
    if (!IsSumTree(program, instruction)) continue;
    const int result = instruction.results[0];
    ends[i] = readers[result] == 1 && end_of_reader[result] >= 0
                  ? end_of_reader[result]
                  : i;
    for (int operand : instruction.operands) end_of_reader[operand] = ends[i];
  }
  return ends;
}

bool IsSumReduction(const Program& program, const Instruction& instruction) {
  if (instruction.opcode != Opcode::kReshard) return false;
  const TensorLayout& from = program.values[instruction.operands[0]].layout;
  const TensorLayout& to = program.values[instruction.results[0]].layout;
  return from.unreduced != 0 && to.unreduced == 0 && from.dims == to.dims &&
         from.reduction == ReduceKind::kSum;
}

std::vector<bool> FindConvergingSums(const Program& program) {
  return ConvergenceFinder(program).Run();
}

}  // namespace mtf
