// SPDX-License-Identifier: Apache-2.0
#include "lowering/fusion/expression_numbering.h"

#include <algorithm>
#include <utility>

namespace mtf {
namespace {

using F = ScalarFunction;

bool Commutes(F function) {
  return function == F::kAdd || function == F::kMultiply ||
         function == F::kMaximum || function == F::kMinimum;
}

}  // namespace

int ExpressionNumbering::Intern(Expression expression) {
  const auto [entry, is_new] = numbers_.try_emplace(
      std::move(expression), static_cast<int>(expressions_.size()));
  if (is_new) expressions_.push_back(entry->first);
  return entry->second;
}

int ExpressionNumbering::Map(F function, DType dtype, Arguments arguments) {
  if (Commutes(function)) std::sort(arguments.begin(), arguments.end());
  return Intern({Kind::kMap, static_cast<uint8_t>(function), dtype, 0,
                 std::move(arguments)});
}

int ExpressionNumbering::Literal(double number, DType dtype) {
  const double rounded =
      MapExpression::Literal(number, dtype).steps[0].number();
  return Intern(
      {Kind::kLiteral, 0, kFloat32, std::bit_cast<uint64_t>(rounded), {}});
}

int ExpressionNumbering::Iota(const std::string& dimension) {
  return Intern({Kind::kIota, 0, kInt32, NumberOfName(dimension), {}});
}

int ExpressionNumbering::Cast(int expression, DType from, DType to) {
  return from == to ? expression
                    : Intern({Kind::kCast, 0, to, 0, {expression}});
}

int ExpressionNumbering::Reduce(ReduceKind kind, const std::string& dimension,
                                int expression) {
  return Intern({Kind::kReduce,
                 static_cast<uint8_t>(kind),
                 kFloat32,
                 NumberOfName(dimension),
                 {expression}});
}

int ExpressionNumbering::Leaf(int value) {
  return number_of_value_[value] = Intern(
             {Kind::kLeaf, 0, kFloat32, static_cast<uint64_t>(value), {}});
}

uint64_t ExpressionNumbering::NumberOfName(const std::string& name) {
  return number_of_name_.try_emplace(name, number_of_name_.size())
      .first->second;
}

const std::string* ExpressionNumbering::ReducedDimension(
    const Instruction& instruction) const {
  const Shape& result = program_.values[instruction.results[0]].shape;
  const std::string* reduced = nullptr;
  for (const Dimension& dim : instruction.Get<ReduceAttributes>().iteration) {
    if (result.Contains(dim.name)) continue;
    if (reduced != nullptr) return nullptr;
    reduced = &dim.name;
  }
  return reduced;
}

int ExpressionNumbering::Compose(const Instruction& instruction) {
  std::vector<int> numbers;
  std::vector<DType> types;
  for (int operand : instruction.operands) {
    numbers.push_back(number_of_value_[operand]);
    types.push_back(program_.values[operand].dtype);
  }
  for (const MapStep& step : ExpressionOf(instruction).steps) {
    Arguments arguments;
    for (int argument : step.arguments) arguments.push_back(numbers[argument]);
    int expression;
    if (step.function == F::kIdentity || step.function == F::kCast) {
      expression = Cast(arguments[0], types[step.arguments[0]], step.dtype);
    } else if (step.function == F::kLiteral) {
      expression = Literal(step.literal, step.dtype);
    } else if (step.function == F::kIota) {
      expression = Iota(step.dimension);
    } else {
      expression = Map(step.function, step.dtype, std::move(arguments));
    }
    numbers.push_back(expression);
    types.push_back(step.dtype);
  }
  if (instruction.opcode == Opcode::kMap) return numbers.back();
  return Reduce(ReductionOf(instruction), *ReducedDimension(instruction),
                numbers.back());
}

int ExpressionNumbering::Of(int value) {
  // Iterative: a chain of maps can be longer than the stack allows.
  std::vector<int> open = {value};
  while (!open.empty()) {
    const int next = open.back();
    if (number_of_value_[next] >= 0) {
      open.pop_back();
      continue;
    }
    const int index = producers_[next];
    const Instruction* producer =
        index < 0 ? nullptr : &program_.instructions[index];
    // No pattern has a reduction over several dimensions: it is a leaf.
    if (producer == nullptr || !HasExpression(*producer) ||
        (producer->opcode == Opcode::kReduce &&
         ReducedDimension(*producer) == nullptr)) {
      Leaf(next);
      continue;
    }
    bool operands_known = true;
    for (int operand : producer->operands) {
      if (number_of_value_[operand] >= 0) continue;
      open.push_back(operand);
      operands_known = false;
    }
    if (operands_known) number_of_value_[next] = Compose(*producer);
  }
  return number_of_value_[value];
}

}  // namespace mtf
