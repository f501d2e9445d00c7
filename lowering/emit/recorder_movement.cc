// SPDX-License-Identifier: Apache-2.0
//
// Recorder: instructions that move elements. Along a sharded dimension they
// move rows between ranks (recorder_rows.cc), unless a gather sends no more.
#include <string>
#include <utility>
#include <vector>

#include "lowering/emit/recorder.h"
#include "lowering/program/reshape_layout.h"

namespace mtf {
Value Recorder::Reshape(Value value, const Shape& shape) {
  // The result keeps the sharding of the operand; conflicting rules for its
  // shape are an error all the same.
  const Shape* shapes[] = {&shape};
  const bool legal = CheckUnion(shapes);
  value = InThisModule(value);
  const TensorLayout source = at(value).layout.Reduced();
  const ReshapeLayouts layouts =
      LineUpReshape(binding_.grains, at(value).shape, source, shape);
  Instruction instruction(Opcode::kReshape);
  instruction.operands = {Demand(value.id, layouts.before)};
  const Value result =
      Append(std::move(instruction), at(value).dtype, shape, layouts.after);
  if (!legal || layouts.before == source) return result;
  // What had to be gathered has the layout of its rules, like other results,
  // where this does not take an axis from a dimension that kept its sharding.
  TensorLayout layout = RuleLayout(shape);
  for (int i = 0; i < shape.rank(); ++i) {
    const AxisList& kept = layouts.after.dims[i];
    if (!kept.empty()) {
      layout.dims[i] = kept;
    } else if ((SetOf(layout.dims[i]) & layouts.after.Sharded()) != 0) {
      layout.dims[i] = {};
    }
  }
  const int sharded = Demand(result.id, layout);
  if (sharded != result.id) gathered_[sharded] = result.id;
  return {sharded};
}

Value Recorder::Unshard(Value value, absl::Span<const std::string> dimensions) {
  value = InThisModule(value);
  TensorLayout layout = at(value).layout.Reduced();
  for (const std::string& dimension : dimensions) {
    const int i = at(value).shape.Find(dimension);
    if (i >= 0) layout.dims[i] = {};
  }
  return {Demand(value.id, layout)};
}

Value Recorder::Slice(Value value, const std::string& dimension, int64_t begin,
                      int64_t size) {
  value = InThisModule(value);
  const Value moved = PlaceRows({value}, {-begin}, dimension, size, 0, false,
                                at(value).layout.Reduced());
  if (moved.valid()) return moved;
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
  value = InThisModule(value);
  const int64_t size = before + at(value).shape.SizeOf(dimension) + after;
  const Value moved = PlaceRows({value}, {before}, dimension, size, fill, false,
                                at(value).layout.Reduced());
  if (moved.valid()) return moved;
  const std::string dims[] = {dimension};
  value = Unshard(value, dims);
  Instruction instruction(Opcode::kPad, PadAttributes{dimension, before, fill});
  instruction.operands = {value.id};
  const Shape shape = at(value).shape.Resized(dimension, size);
  return Append(std::move(instruction), at(value).dtype, shape,
                TensorLayout(at(value).layout));
}

Value Recorder::Concat(absl::Span<const Value> values,
                       const std::string& dimension) {
  const Shape order = at(values[0]).shape;
  std::vector<Value> aligned;  // in the dimension order of the first
  std::vector<int64_t> offsets;
  int64_t size = 0;
  for (Value value : values) {
    Shape shape;
    for (const Dimension& dim : order) {
      shape = shape.With({dim.name, at(value).shape.SizeOf(dim.name)});
    }
    if (!(at(value).shape == shape)) {
      value = Map(
          MapExpression::Single(ScalarFunction::kIdentity, at(value).dtype, 1),
          {value}, shape);
    }
    aligned.push_back(value);
    offsets.push_back(size);
    size += shape.SizeOf(dimension);
  }
  const Shape shape = order.Resized(dimension, size);
  TensorLayout layout = RuleLayout(shape);
  const Value moved =
      PlaceRows(aligned, offsets, dimension, size, 0, false, layout);
  if (moved.valid()) return moved;
  layout.dims[shape.Find(dimension)] = {};
  Instruction instruction(Opcode::kConcat, ConcatAttributes{dimension});
  for (Value value : aligned) {
    instruction.operands.push_back(Demand(value.id, layout));
  }
  return Append(std::move(instruction), at(values[0]).dtype, shape,
                std::move(layout));
}

}  // namespace mtf
