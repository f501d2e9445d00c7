// SPDX-License-Identifier: Apache-2.0
//
// Recorder: instructions that move elements. A dimension that an operation
// needs unsharded is gathered first.
#include <string>
#include <utility>

#include "lowering/emit/recorder.h"
#include "lowering/program/reshape_layout.h"

namespace mtf {
Value Recorder::Reshape(Value value, const Shape& shape) {
  // The result keeps the sharding of the operand; conflicting rules for its
  // shape are an error all the same.
  const Shape* shapes[] = {&shape};
  CheckUnion(shapes);
  const ReshapeLayouts layouts = LineUpReshape(
      binding_.grains, at(value).shape, at(value).layout.Reduced(), shape);
  Instruction instruction(Opcode::kReshape);
  instruction.operands = {Demand(value.id, layouts.before)};
  const Value result =
      Append(std::move(instruction), at(value).dtype, shape, layouts.after);
  // A dimension gets a second name because of that name's rule. Resharding at
  // once lets all readers share one collective.
  const bool has_second_name =
      operation_ != nullptr && !operation_->SecondNames().empty();
  return has_second_name ? Value{DemandRules(result)} : result;
}

Value Recorder::Unshard(Value value, absl::Span<const std::string> dimensions) {
  TensorLayout layout = at(value).layout.Reduced();
  for (const std::string& dimension : dimensions) {
    const int i = at(value).shape.Find(dimension);
    if (i >= 0) layout.dims[i] = {};
  }
  return {Demand(value.id, layout)};
}

Value Recorder::Slice(Value value, const std::string& dimension, int64_t begin,
                      int64_t size) {
  const std::string dims[] = {dimension};
  value = Unshard(value, dims);
  Instruction instruction(Opcode::kSlice, SliceAttributes{dimension, begin});
  instruction.operands = {value.id};
  const Shape shape = at(value).shape.Resized(dimension, size);
  return Append(std::move(instruction), at(value).dtype, shape,
                TensorLayout(at(value).layout));
}

Value Recorder::Pad(Value value, const std::string& dimension, int64_t before,
                    int64_t after, double fill) {
  const std::string dims[] = {dimension};
  value = Unshard(value, dims);
  Instruction instruction(Opcode::kPad, PadAttributes{dimension, before, fill});
  instruction.operands = {value.id};
  const Shape shape = at(value).shape.Resized(
      dimension, before + at(value).shape.SizeOf(dimension) + after);
  return Append(std::move(instruction), at(value).dtype, shape,
                TensorLayout(at(value).layout));
}

Value Recorder::Concat(absl::Span<const Value> values,
                       const std::string& dimension) {
  Instruction instruction(Opcode::kConcat, ConcatAttributes{dimension});
  int64_t size = 0;
  Shape shape;
  TensorLayout layout;
  const Shape order = at(values[0]).shape;
  for (Value value : values) {
    size += at(value).shape.SizeOf(dimension);
    // All operands in the dimension order of the first.
    Shape aligned;
    for (const Dimension& dim : order) {
      aligned = aligned.With({dim.name, at(value).shape.SizeOf(dim.name)});
    }
    if (!(at(value).shape == aligned)) {
      value = Map(
          MapExpression::Single(ScalarFunction::kIdentity, at(value).dtype, 1),
          {value}, aligned);
    }
    layout = RuleLayout(aligned);
    layout.dims[aligned.Find(dimension)] = {};
    instruction.operands.push_back(Demand(value.id, layout));
  }
  shape = order.Resized(dimension, size);
  return Append(std::move(instruction), at(values[0]).dtype, shape, layout);
}

Value Recorder::Gather(Value table, Value indices, const std::string& dimension,
                       const Shape& shape) {
  const Shape table_shape = at(table).shape, indices_shape = at(indices).shape;
  const Shape* shapes[] = {&table_shape, &indices_shape};
  CheckUnion(shapes);
  Instruction instruction(Opcode::kGather,
                          GatherAttributes{dimension, InputName(1, indices)});
  const int rows = DemandRules(table);
  instruction.operands = {rows, DemandRules(indices)};
  TensorLayout layout = RuleLayout(shape);
  absl::InlinedVector<Cause, 1> causes;
  // Each device looks up the rows that it holds and writes zeros for the
  // others.
  LeaveUnreduced(table_shape, program_.values[rows].layout,
                 table_shape.Without(dimension), ReduceKind::kSum, layout,
                 causes);
  const Value result =
      Append(std::move(instruction), at(table).dtype, shape, std::move(layout));
  program_.values[result.id].causes = std::move(causes);
  return result;
}

Value Recorder::ScatterAdd(Value updates, Value indices,
                           const std::string& dimension, const Shape& shape) {
  const Shape updates_shape = at(updates).shape;
  const Shape* shapes[] = {&updates_shape, &shape};
  CheckUnion(shapes);
  Instruction instruction(Opcode::kScatterAdd,
                          GatherAttributes{dimension, InputName(1, indices)});
  const int added = DemandRules(updates);
  instruction.operands = {added, DemandRules(indices)};
  TensorLayout layout = RuleLayout(shape);
  absl::InlinedVector<Cause, 1> causes;
  LeaveUnreduced(updates_shape, program_.values[added].layout, shape,
                 ReduceKind::kSum, layout, causes);
  const Value result = Append(std::move(instruction), at(updates).dtype, shape,
                              std::move(layout));
  program_.values[result.id].causes = std::move(causes);
  return result;
}

}  // namespace mtf
