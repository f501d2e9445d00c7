// SPDX-License-Identifier: Apache-2.0
//
// Recorder: dynamic_slice and update_slice. The dimension of the rows may be
// sharded: each device reads or writes those of the rows that it has. The rows
// themselves are not sharded along it, because where they lie is known only
// when the step runs.
#include <string>
#include <tuple>
#include <utility>

#include "lowering/emit/recorder.h"
#include "mtf/sliced_rows.h"

namespace mtf {
namespace {

// The layout of `shape` in which its dimensions are sharded as in `value`, and
// others are not.
TensorLayout LayoutAlong(const Shape& value, const TensorLayout& layout,
                         const Shape& shape, absl::string_view except) {
  TensorLayout along = TensorLayout::Replicated(shape.rank());
  for (int i = 0; i < shape.rank(); ++i) {
    const int there = shape[i].name == except ? -1 : value.Find(shape[i].name);
    if (there >= 0) along.dims[i] = layout.dims[there];
  }
  return along;
}

}  // namespace

Value Recorder::CheckedIndex(Value value, Value index,
                             const std::string& dimension, int64_t rows) {
  const int demanded =
      Demand(index.id, LayoutAlong(at(value).shape, RuleLayout(at(value).shape),
                                   at(index).shape, dimension));
  const int64_t size = at(value).shape.SizeOf(dimension);
  // The updates of a step share one check, which comes before the first of
  // them: an update in place cannot precede an instruction that can fail.
  const auto key = std::make_tuple(demanded, rows, dimension, size);
  const auto known = checked_.find(key);
  if (known != checked_.end()) return {known->second};
  const size_t input = operation_ == nullptr ? 0 : operation_->inputs().size();
  Instruction check(
      Opcode::kCheckIndex,
      CheckIndexAttributes{rows, dimension, size, InputName(input - 1, index)});
  check.operands = {demanded};
  const Value checked =
      Append(std::move(check), at(index).dtype, at(index).shape,
             TensorLayout(program_.values[demanded].layout));
  checked_.emplace(key, checked.id);
  return checked;
}

Value Recorder::DynamicSlice(Value value, Value index,
                             const std::string& dimension, const Shape& shape) {
  const Shape from = at(value).shape;
  const DType dtype = at(value).dtype;
  const Shape* shapes[] = {&from};
  if (!CheckUnion(shapes)) {
    return Append({}, dtype, shape, TensorLayout::Replicated(shape.rank()));
  }
  const TensorLayout layout = RuleLayout(from);
  const Value checked =
      CheckedIndex(value, index, dimension, CountRows(from, shape, dimension));
  Instruction instruction(Opcode::kDynamicSlice,
                          DynamicSliceAttributes{dimension});
  instruction.operands = {Demand(value.id, layout), checked.id};
  // Only the rows are reduced.
  TensorLayout rows = LayoutAlong(from, layout, shape, dimension);
  absl::InlinedVector<Cause, 1> causes;
  LeaveUnreduced(from, layout, from.Without(dimension), ReduceKind::kSum, rows,
                 causes);
  const Value result =
      Append(std::move(instruction), dtype, shape, std::move(rows));
  program_.values[result.id].causes = std::move(causes);
  return result;
}

Value Recorder::UpdateSlice(Value value, Value update, Value index,
                            const std::string& dimension) {
  const Shape shape = at(value).shape, rows = at(update).shape;
  const DType dtype = at(value).dtype;
  const Shape* shapes[] = {&shape};
  if (!CheckUnion(shapes)) {
    return Append({}, dtype, shape, TensorLayout::Replicated(shape.rank()));
  }
  const TensorLayout layout = RuleLayout(shape);
  const Value checked =
      CheckedIndex(value, index, dimension, CountRows(shape, rows, dimension));
  Instruction instruction(Opcode::kUpdateSlice,
                          DynamicSliceAttributes{dimension});
  instruction.operands = {
      Demand(value.id, layout),
      Demand(update.id, LayoutAlong(shape, layout, rows, dimension)),
      checked.id};
  return Append(std::move(instruction), dtype, shape, layout);
}

}  // namespace mtf
