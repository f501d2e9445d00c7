// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/terms.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mtf::cuda {
namespace {

using F = ScalarFunction;

bool Commutes(absl::string_view function) {
  for (absl::string_view name : {"add.", "mul.", "max.", "min."}) {
    if (function.substr(0, name.size()) == name) return true;
  }
  return false;
}

}  // namespace

int Terms::Make(const std::string& function, std::vector<int> arguments) {
  if (Commutes(function)) std::sort(arguments.begin(), arguments.end());
  return terms_
      .try_emplace({function, std::move(arguments)},
                   static_cast<int>(terms_.size()))
      .first->second;
}

int Terms::Literal(double number, DType dtype) {
  const double held = MapExpression::Literal(number, dtype).steps[0].number();
  return Make(absl::StrFormat("literal %.17g", held));
}

int Terms::Iota(const std::string& dimension) {
  return Make(absl::StrCat("iota ", dimension));
}

int Terms::Cast(int term, DType from, DType to) {
  return from == to ? term : Make(absl::StrCat("cast.", DTypeName(to)), {term});
}

int Terms::Reduce(ReduceKind kind, const std::string& dimension, int term) {
  return Make(absl::StrCat("reduce ", static_cast<int>(kind), " ", dimension),
              {term});
}

int Terms::Leaf(int value) {
  return values_[value] = Make(absl::StrCat("value ", value));
}

int Terms::OfMap(const MapExpression& expression,
                 const std::vector<int>& operands,
                 const std::vector<DType>& dtypes) {
  std::vector<int> terms = operands;
  std::vector<DType> types = dtypes;
  for (const MapStep& step : expression.steps) {
    std::vector<int> arguments;
    for (int argument : step.arguments) arguments.push_back(terms[argument]);
    int term;
    if (step.function == F::kIdentity) {
      term = Cast(arguments[0], types[step.arguments[0]], step.dtype);
    } else if (step.function == F::kCast) {
      term = Cast(arguments[0], types[step.arguments[0]], step.dtype);
    } else if (step.function == F::kLiteral) {
      term = Literal(step.literal, step.dtype);
    } else if (step.function == F::kIota) {
      term = Iota(step.dimension);
    } else {
      const ScalarFunctionInfo& info = InfoOf(step.function);
      term = Make(absl::StrCat(std::string(info.text), ".",
                               std::string(DTypeName(step.dtype))),
                  std::move(arguments));
    }
    terms.push_back(term);
    types.push_back(step.dtype);
  }
  return terms.back();
}

int Terms::Of(int value) {
  const auto known = values_.find(value);
  if (known != values_.end()) return known->second;
  const int place = producers_[value];
  if (place < 0) return Leaf(value);
  const Instruction& instruction = program_.instructions[place];
  const bool reduces = instruction.opcode == Opcode::kReduce;
  if (instruction.opcode != Opcode::kMap && !reduces) return Leaf(value);
  std::vector<int> operands;
  std::vector<DType> dtypes;
  for (int operand : instruction.operands) {
    operands.push_back(Of(operand));
    dtypes.push_back(program_.values[operand].dtype);
  }
  int term = OfMap(instruction.expression, operands, dtypes);
  if (reduces) {
    const Shape& result = program_.values[value].shape;
    std::string summed;
    int count = 0;
    for (const Dimension& dim : instruction.iteration) {
      if (result.Contains(dim.name)) continue;
      summed = dim.name;
      ++count;
    }
    // One over several dimensions is of no formula that is looked for.
    if (count != 1) return Leaf(value);
    term = Reduce(instruction.reduce_kind, summed, term);
  }
  return values_[value] = term;
}

}  // namespace mtf::cuda
