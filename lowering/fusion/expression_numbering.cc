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

int ExpressionNumbering::Make(Term term) {
  const auto [place, added] =
      numbers_.try_emplace(std::move(term), static_cast<int>(terms_.size()));
  if (added) terms_.push_back(place->first);
  return place->second;
}

int ExpressionNumbering::Map(F function, DType dtype, Arguments arguments) {
  if (Commutes(function)) std::sort(arguments.begin(), arguments.end());
  return Make({Kind::kMap, static_cast<uint8_t>(function), dtype, 0,
               std::move(arguments)});
}

int ExpressionNumbering::Literal(double number, DType dtype) {
  const double held = MapExpression::Literal(number, dtype).steps[0].number();
  return Make({Kind::kLiteral, 0, kFloat32, std::bit_cast<uint64_t>(held), {}});
}

int ExpressionNumbering::Iota(const std::string& dimension) {
  return Make({Kind::kIota, 0, kInt32, NumberOf(dimension), {}});
}

int ExpressionNumbering::Cast(int term, DType from, DType to) {
  return from == to ? term : Make({Kind::kCast, 0, to, 0, {term}});
}

int ExpressionNumbering::Reduce(ReduceKind kind, const std::string& dimension,
                                int term) {
  return Make({Kind::kReduce,
               static_cast<uint8_t>(kind),
               kFloat32,
               NumberOf(dimension),
               {term}});
}

int ExpressionNumbering::Leaf(int value) {
  return values_[value] =
             Make({Kind::kLeaf, 0, kFloat32, static_cast<uint64_t>(value), {}});
}

uint64_t ExpressionNumbering::NumberOf(const std::string& name) {
  return names_.try_emplace(name, names_.size()).first->second;
}

const std::string* ExpressionNumbering::ReducedBy(
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

int ExpressionNumbering::OfKnown(const Instruction& instruction) {
  std::vector<int> terms;
  std::vector<DType> types;
  for (int operand : instruction.operands) {
    terms.push_back(values_[operand]);
    types.push_back(program_.values[operand].dtype);
  }
  for (const MapStep& step : ExpressionOf(instruction).steps) {
    Arguments arguments;
    for (int argument : step.arguments) arguments.push_back(terms[argument]);
    int term;
    if (step.function == F::kIdentity || step.function == F::kCast) {
      term = Cast(arguments[0], types[step.arguments[0]], step.dtype);
    } else if (step.function == F::kLiteral) {
      term = Literal(step.literal, step.dtype);
    } else if (step.function == F::kIota) {
      term = Iota(step.dimension);
    } else {
      term = Map(step.function, step.dtype, std::move(arguments));
    }
    terms.push_back(term);
    types.push_back(step.dtype);
  }
  if (instruction.opcode == Opcode::kMap) return terms.back();
  return Reduce(ReductionOf(instruction), *ReducedBy(instruction),
                terms.back());
}

int ExpressionNumbering::Of(int value) {
  // However long a chain of maps is, the stack is not.
  std::vector<int> open = {value};
  while (!open.empty()) {
    const int next = open.back();
    if (values_[next] >= 0) {
      open.pop_back();
      continue;
    }
    const int place = producers_[next];
    const Instruction* maker =
        place < 0 ? nullptr : &program_.instructions[place];
    // A reduction over several dimensions is of no formula that is looked for.
    if (maker == nullptr ||
        (maker->opcode != Opcode::kMap && maker->opcode != Opcode::kReduce) ||
        (maker->opcode == Opcode::kReduce && ReducedBy(*maker) == nullptr)) {
      Leaf(next);
      continue;
    }
    bool known = true;
    for (int operand : maker->operands) {
      if (values_[operand] >= 0) continue;
      open.push_back(operand);
      known = false;
    }
    if (known) values_[next] = OfKnown(*maker);
  }
  return values_[value];
}

}  // namespace mtf
