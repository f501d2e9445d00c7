// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/absorb_map.h"

#include <iterator>
#include <utility>

#include "absl/container/inlined_vector.h"

namespace mtf {
namespace {

// Appends `steps` to `to`, with the arguments that `place_of` gives them.
template <class PlaceOf>
void Append(std::vector<MapStep> steps, const PlaceOf& place_of,
            std::vector<MapStep>& to) {
  for (MapStep& step : steps) {
    for (int& argument : step.arguments) argument = place_of(argument);
  }
  if (to.empty()) {
    to = std::move(steps);
    return;
  }
  to.insert(to.end(), std::make_move_iterator(steps.begin()),
            std::make_move_iterator(steps.end()));
}

}  // namespace

bool RunsOverElements(const Program& program, const Instruction& reader,
                      int value) {
  const ProgramValue& made = program.values[value];
  if (const auto* reduce = reader.Find<ReduceAttributes>()) {
    return made.shape.SameDimensions(reduce->iteration);
  }
  return made.shape.SameDimensions(program.values[reader.results[0]].shape);
}

void AbsorbMap(const Instruction& producer, std::vector<MapStep> steps,
               int value, Instruction& reader) {
  absl::InlinedVector<int, 4> operands;
  const auto place_of = [&operands](int value) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] == value) return static_cast<int>(i);
    }
    operands.push_back(value);
    return static_cast<int>(operands.size()) - 1;
  };
  // Operands first, because steps count from behind them.
  absl::InlinedVector<int, kMostMapOperands> reader_map, producer_map;
  for (int operand : reader.operands) {
    reader_map.push_back(operand == value ? -1 : place_of(operand));
  }
  for (int operand : producer.operands) {
    producer_map.push_back(place_of(operand));
  }
  const int num_operands = static_cast<int>(operands.size());
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
  const int made = num_operands + static_cast<int>(fused.steps.size()) - 1;
  MapExpression& expression = ExpressionOf(reader);
  const int shift = made + 1 - expression.num_operands;
  // An identity in front of a reduction only passes the operand on.
  const bool passes_on =
      expression.steps.size() == 1 &&
      expression.steps[0].function == ScalarFunction::kIdentity;
  if (!passes_on) {
    const int reader_operands = expression.num_operands;
    Append(
        std::move(expression.steps),
        [&](int argument) {
          if (argument >= reader_operands) return argument + shift;
          return reader_map[argument] < 0 ? made : reader_map[argument];
        },
        fused.steps);
  }
  expression = std::move(fused);
  reader.operands = std::move(operands);
}

}  // namespace mtf
