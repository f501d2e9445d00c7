// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/fuse_maps.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "lowering/passes/absorb_map.h"
#include "lowering/program/linearity.h"
#include "lowering/program/readers.h"

namespace mtf {
namespace {

class MapFuser {
 public:
  explicit MapFuser(Program& program)
      : program_(program),
        readers_(CountReaders(program)),
        producers_(FindProducers(program)) {
    int einsums = 0;
    for (const Instruction& instruction : program.instructions) {
      einsums += instruction.opcode == Opcode::kEinsum;
      einsums_until_.push_back(einsums);
    }
  }

  void Run() {
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      Instruction& reader = program_.instructions[i];
      if (!HasExpression(reader)) continue;
      for (size_t operand = 0; operand < reader.operands.size();) {
        // Fusing renumbers the operands, so start over.
        operand = TryAbsorb(i, static_cast<int>(operand)) ? 0 : operand + 1;
      }
    }
    // Removes the maps that no instruction reads any more.
    std::vector<bool> dead(program_.instructions.size(), false);
    for (size_t i = 0; i < dead.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      dead[i] = instruction.opcode == Opcode::kMap &&
                readers_[instruction.results[0]] == 0;
    }
    EraseInstructions(dead, program_);
  }

 private:
  // Fuses the map that produces operand `index` into instruction `at`, if
  // allowed.
  bool TryAbsorb(size_t at, int index) {
    Instruction& reader = program_.instructions[at];
    const int value = reader.operands[index];
    if (producers_[value] < 0) return false;
    Instruction& producer = program_.instructions[producers_[value]];
    if (producer.opcode != Opcode::kMap || CastsSummands(producer) ||
        IsRunningSum(producers_[value], at)) {
      return false;
    }
    const bool is_source = producer.operands.empty();
    const int reads = static_cast<int>(
        std::count(reader.operands.begin(), reader.operands.end(), value));
    if (!is_source &&
        !(readers_[value] == reads && IteratesOver(program_, reader, value))) {
      return false;
    }
    const size_t reader_steps = ExpressionOf(reader).steps.size();
    std::vector<MapStep>& producer_steps =
        producer.Get<MapAttributes>().expression.steps;
    if (reader_steps + producer_steps.size() > kMaxMapSteps ||
        reader.operands.size() + producer.operands.size() > kMaxMapOperands) {
      return false;
    }
    for (int operand : reader.operands) --readers_[operand];
    std::vector<MapStep> steps;
    if (readers_[value] == 0) {
      steps = std::move(producer_steps);  // the last reader
    } else {
      steps.reserve(producer_steps.size() + reader_steps);
      steps.insert(steps.end(), producer_steps.begin(), producer_steps.end());
    }
    AbsorbMap(producer, std::move(steps), value, reader);
    for (int operand : reader.operands) ++readers_[operand];
    if (readers_[value] == 0) {
      for (int operand : producer.operands) --readers_[operand];
    }
    return true;
  }

  // Whether the map at `sum` adds the result of an einsum to another tensor,
  // both have no other reader, and einsums separate it from `reader`. Fused,
  // both would stay in memory until then, for example the gradients of a weight
  // from each use of it. The sum may be scaled.
  bool IsRunningSum(int sum, size_t reader) const {
    using F = ScalarFunction;
    if (einsums_until_[sum] == einsums_until_[reader]) return false;
    const Instruction& map = program_.instructions[sum];
    bool adds = false;
    for (const MapStep& step : ExpressionOf(map).steps) {
      adds = adds || step.function == F::kAdd;
      if (step.function != F::kAdd && step.function != F::kMultiply &&
          step.function != F::kDivide && step.function != F::kLiteral) {
        return false;
      }
    }
    int summands = 0, einsums = 0;
    for (int operand : map.operands) {
      const int producer = producers_[operand];
      if (readers_[operand] != 1 || producer < 0 ||
          program_.values[operand].shape !=
              program_.values[map.results[0]].shape) {
        continue;
      }
      ++summands;
      einsums += program_.instructions[producer].opcode == Opcode::kEinsum;
    }
    return adds && summands >= 2 && einsums >= 1;
  }

  // Whether a map is the cast of a lookup in a sharded table to a dtype that
  // does not represent all elements, or from integers. It may read summands, of
  // which all but one are 0 (delay_all_reduces), but a reader that absorbs it
  // would not be linear in them.
  bool CastsSummands(const Instruction& map) const {
    if (!IsCast(map)) return false;
    const ProgramValue& summand = program_.values[map.operands[0]];
    const DType dtypes[] = {summand.dtype};
    return summand.layout.unreduced != 0 && !IsLinear(map, dtypes);
  }

  Program& program_;
  std::vector<int> readers_;
  std::vector<int> producers_;
  std::vector<int> einsums_until_;  // by instruction, it included
};

}  // namespace

absl::Status FuseMaps(Program& program) {
  MapFuser(program).Run();
  return absl::OkStatus();
}

}  // namespace mtf
