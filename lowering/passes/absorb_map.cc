// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/absorb_map.h"

#include <iterator>
#include <utility>

#include "absl/container/inlined_vector.h"

namespace mtf {
namespace {

// Appends `steps` to `to` and renumbers their arguments by `index_of`.
template <class IndexOf>
void Append(std::vector<MapStep> steps, const IndexOf& index_of,
            std::vector<MapStep>& to) {
  for (MapStep& step : steps) {
    for (int& argument : step.arguments) argument = index_of(argument);
  }
  if (to.empty()) {
    to = std::move(steps);
    return;
  }
  to.insert(to.end(), std::make_move_iterator(steps.begin()),
            std::make_move_iterator(steps.end()));
}

}  // namespace

bool IteratesOver(const Program& program, const Instruction& reader,
                  int value) {
  const ProgramValue& produced = program.values[value];
  if (const auto* reduce = reader.Find<ReduceAttributes>()) {
    return produced.shape.SameDimensions(reduce->iteration);
  }
  return produced.shape.SameDimensions(program.values[reader.results[0]].shape);
}

void AbsorbMap(const Instruction& producer, std::vector<MapStep> steps,
               int value, Instruction& reader) {
  absl::InlinedVector<int, 4> operands;
  const auto index_of = [&operands](int operand) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] == operand) return static_cast<int>(i);
    }
    operands.push_back(operand);
    return static_cast<int>(operands.size()) - 1;
  };
  // Numbers the operands first: step indices start after the last operand.
  absl::InlinedVector<int, kMaxMapOperands> reader_map, producer_map;
  for (int operand : reader.operands) {
    reader_map.push_back(operand == value ? -1 : index_of(operand));
  }
  for (int operand : producer.operands) {
    producer_map.push_back(index_of(operand));
  }
  const int num_operands = static_cast<int>(operands.size());
  // The steps of the producer, then those of the reader.
  MapExpression fused;
  fused.num_operands = num_operands;
  const int producer_operands =
      producer.Get<MapAttributes>().expression.num_operands;
  Append(
      std::move(steps),
      [&](int argument) {
        return argument < producer_operands
                   ? producer_map[argument]
                   : argument - producer_operands + num_operands;
      },
      fused.steps);
  // The step of the fused expression that yields `value`.
  const int value_step =
      num_operands + static_cast<int>(fused.steps.size()) - 1;
  MapExpression& expression = ExpressionOf(reader);
  const int shift = value_step + 1 - expression.num_operands;
  // The identity step of a plain reduction would only copy `value`.
  const bool is_identity =
      expression.steps.size() == 1 &&
      expression.steps[0].function == ScalarFunction::kIdentity;
  if (!is_identity) {
    const int reader_operands = expression.num_operands;
    Append(
        std::move(expression.steps),
        [&](int argument) {
          if (argument >= reader_operands) return argument + shift;
          return reader_map[argument] < 0 ? value_step : reader_map[argument];
        },
        fused.steps);
  }
  expression = std::move(fused);
  reader.operands = std::move(operands);
}

}  // namespace mtf
