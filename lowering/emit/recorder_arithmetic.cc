// SPDX-License-Identifier: Apache-2.0
//
// Recorder: maps, einsums and reductions. A sum over a sharded dimension is
// left unreduced.
#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "lowering/emit/recorder.h"

namespace mtf {
namespace {

bool IsIdentity(const MapExpression& expression) {
  return expression.steps.size() == 1 &&
         expression.steps[0].function == ScalarFunction::kIdentity;
}

}  // namespace

Value Recorder::Map(const MapExpression& expression,
                    absl::Span<const Value> operands, const Shape& shape) {
  if (operands.size() == 1 && IsIdentity(expression) &&
      at(operands[0]).shape == shape &&
      at(operands[0]).dtype == expression.result_dtype()) {
    return operands[0];
  }
  TensorLayout layout = RuleLayout(shape);
  absl::InlinedVector<int, 4> operand_ids;
  for (const Value& operand : operands) {
    // Most operands have the shape and the layout of the result.
    const ProgramValue& value = at(operand);
    const bool fits =
        &value.shape.dims() == &shape.dims() && value.layout == layout;
    operand_ids.push_back(fits ? operand.id : DemandRules(operand));
  }
  // Constructed in the program, because most instructions are maps.
  Instruction& map = program_.instructions.emplace_back();
  map.Get<MapAttributes>().expression = expression;
  map.operands = std::move(operand_ids);
  return AddFirstResult(expression.result_dtype(), shape, std::move(layout));
}

Shape Recorder::KeptBy(absl::Span<const Value> operands, size_t next,
                       const Shape& product, const Shape& shape) const {
  Shape kept;
  for (const Dimension& dim : product) {
    bool needed = shape.Contains(dim.name);
    for (size_t i = next; i < operands.size() && !needed; ++i) {
      needed = at(operands[i]).shape.Contains(dim.name);
    }
    if (needed) kept = kept.With(dim);
  }
  return kept;
}

Value Recorder::CastTo(DType dtype, Value value) {
  if (at(value).dtype == dtype) return value;
  const Shape shape = at(value).shape;  // Map may reallocate values
  return Map(MapExpression::Single(ScalarFunction::kCast, dtype, 1), {value},
             shape);
}

Value Recorder::Einsum(absl::Span<const Value> operands, const Shape& shape,
                       DType dtype) {
  absl::InlinedVector<const Shape*, 4> shapes;
  for (const Value& operand : operands) shapes.push_back(&at(operand).shape);
  if (!CheckUnion(shapes)) {
    return Append({}, dtype, shape, TensorLayout::Replicated(shape.rank()));
  }
  // Intermediate sums have the dtype of the result.
  absl::InlinedVector<Value, 4> wide(operands.begin(), operands.end());
  if (operands.size() != 2) {
    for (Value& operand : wide) operand = CastTo(dtype, operand);
    operands = wide;
  }
  if (operands.size() == 1) {
    return Reduce(ReduceKind::kSum, operands[0], shape);
  }
  // Multiplies more than two operands from left to right; sums over a dimension
  // as soon as neither the result nor an operand further right has it.
  Value product = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    if (i + 1 == operands.size()) {
      return BinaryEinsum(product, operands[i], shape, dtype);
    }
    Shape both = at(product).shape;
    for (const Dimension& dim : at(operands[i]).shape) {
      if (!both.Contains(dim.name)) both = both.With(dim);
    }
    product = BinaryEinsum(product, operands[i],
                           KeptBy(operands, i + 1, both, shape), dtype);
  }
  return product;
}

Value Recorder::BinaryEinsum(Value x, Value y, const Shape& shape,
                             DType dtype) {
  // Sums over the dimensions that only one operand has and the result lacks,
  // before the operands are multiplied.
  const Shape x_shape = at(x).shape, y_shape = at(y).shape;
  Value operands[2] = {x, y};
  bool contracts = false;
  for (int side = 0; side < 2; ++side) {
    const Shape& mine = side == 0 ? x_shape : y_shape;
    const Shape& other = side == 0 ? y_shape : x_shape;
    const auto is_kept = [&](const Dimension& dim) {
      return shape.Contains(dim.name) || other.Contains(dim.name);
    };
    bool all_kept = true;
    for (const Dimension& dim : mine) {
      all_kept = all_kept && is_kept(dim);
      contracts =
          contracts || (other.Contains(dim.name) && !shape.Contains(dim.name));
    }
    if (all_kept) continue;
    std::vector<Dimension> kept;
    std::copy_if(mine.begin(), mine.end(), std::back_inserter(kept), is_kept);
    operands[side] = Reduce(ReduceKind::kSum, CastTo(dtype, operands[side]),
                            Shape(std::move(kept)));
  }
  if (!contracts || at(operands[0]).dtype != at(operands[1]).dtype) {
    for (Value& operand : operands) operand = CastTo(dtype, operand);
  }
  if (!contracts) {
    return Map(MapExpression::Single(ScalarFunction::kMultiply, dtype, 2),
               operands, shape);
  }
  Instruction instruction(Opcode::kEinsum);
  TensorLayout layout = RuleLayout(shape);
  absl::InlinedVector<Cause, 1> causes;
  for (const Value& operand : operands) {
    const int id = DemandRules(operand);
    instruction.operands.push_back(id);
    LeaveUnreduced(program_.values[id].shape, program_.values[id].layout, shape,
                   ReduceKind::kSum, layout, causes);
  }
  const Value result =
      Append(std::move(instruction), dtype, shape, std::move(layout));
  program_.values[result.id].causes = std::move(causes);
  return result;
}

Value Recorder::Reduce(ReduceKind kind, Value value, const Shape& shape) {
  const Shape operand = at(value).shape;
  const DType dtype = at(value).dtype;
  if (operand.SameDimensions(shape)) {
    return Map(MapExpression::Single(ScalarFunction::kIdentity, dtype, 1),
               {value}, shape);
  }
  Instruction instruction(Opcode::kReduce);
  auto& reduce = instruction.Get<ReduceAttributes>();
  reduce.kind = kind;
  reduce.expression =
      MapExpression::Single(ScalarFunction::kIdentity, dtype, 1);
  reduce.iteration = operand;
  reduce.iteration_layout = RuleLayout(operand);
  const TensorLayout& iteration_layout = reduce.iteration_layout;
  instruction.operands = {Demand(value.id, iteration_layout)};
  TensorLayout layout = RuleLayout(shape);
  absl::InlinedVector<Cause, 1> causes;
  LeaveUnreduced(operand, iteration_layout, shape, kind, layout, causes);
  const Value result =
      Append(std::move(instruction), dtype, shape, std::move(layout));
  program_.values[result.id].causes = std::move(causes);
  return result;
}

}  // namespace mtf
