// SPDX-License-Identifier: Apache-2.0
//
// Recorder: operations that read rows of one dimension at other positions:
// windows and their transpose, shifts, and slices, pads and concatenations of a
// sharded dimension. Each rank sends the rows that others need, and no more:
//
//   %w.halo = take_rows(%x) height from{32 at 1} to 32 span 3 round 0
//   %w.halo.1 = collective_permute(%w.halo) shift 1 over{rows}
//   ...                                         likewise round 1, shift 3
//   %w.rows = place_rows(%x, %w.halo.1, %w.halo.3) height ...
//   %w = windows(%w.rows) height, kh of halo-rows
//
// docs/design/0017-halos.md states what that costs.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lowering/emit/recorder.h"
#include "lowering/program/row_moves.h"

namespace mtf {

// One transfer of rows.
class Recorder::RowMover {
 public:
  RowMover(Recorder& recorder, RowsAttributes rows)
      : recorder_(recorder),
        rows_(std::move(rows)),
        plan_(RowTransferOf(recorder.program_.grains, rows_)) {}

  bool SendsLessThanGather() const {
    return plan_.is_complete() &&
           (plan_.rows() == 0 || plan_.rows() < plan_.gathered_rows());
  }
  bool is_complete() const { return plan_.is_complete(); }
  // The rows that all ranks need, with those that several ranks need.
  int64_t LineSize() const {
    return plan_.transfer().ranks * plan_.transfer().LineExtent();
  }

  // Appends the rounds, then place_rows. The operands are the sources, or with
  // `adds` the line; `to` takes the place of dimension `dim` in the result.
  Value Append(absl::Span<const Value> operands, int dim, const Dimension& to) {
    Instruction place(Opcode::kPlaceRows, rows_);
    for (Value operand : operands) place.operands.push_back(operand.id);
    const auto rounds = static_cast<int>(plan_.rounds().size());
    for (int round = 0; round < rounds; ++round) {
      place.operands.push_back(AppendRound(operands, dim, round).id);
    }
    const std::string name = to.name == rows_.dimension
                                 ? std::string(recorder_.name_)
                                 : absl::StrCat(recorder_.name_, ".rows");
    return AppendLike(operands[0], std::move(place), dim, to, name);
  }

 private:
  Value AppendRound(absl::Span<const Value> operands, int dim, int round) {
    RowsAttributes attributes = rows_;
    attributes.fill = 0;
    attributes.round = round;
    Instruction take(Opcode::kTakeRows, attributes);
    for (Value operand : operands) take.operands.push_back(operand.id);
    const Shape& shape = recorder_.at(operands[0]).shape;
    const Dimension message{
        recorder_.HaloName(rows_.axes, shape.Without(shape[dim].name)),
        plan_.transfer().ranks * plan_.rounds()[round].rows};
    const std::string name = absl::StrCat(recorder_.name_, ".halo");
    const Value taken =
        AppendLike(operands[0], std::move(take), dim, message, name);
    Instruction send(
        Opcode::kCollectivePermute,
        PermutationOf(plan_.rounds()[round], rows_.axes, rows_.adds));
    for (int axis : rows_.axes) {
      Cause cause{axis, rows_.dimension, -1};
      cause.rule = recorder_.FindRule(cause);
      send.causes.push_back(std::move(cause));
    }
    send.operands = {taken.id};
    return AppendLike(taken, std::move(send), dim, message, name);
  }

  // Appends an instruction whose result is as `like`, except for one dimension.
  Value AppendLike(Value like, Instruction instruction, int dim,
                   const Dimension& to, const std::string& name) {
    const ProgramValue from = recorder_.at(like);  // Append may reallocate
    TensorLayout layout = from.layout;
    layout.dims[dim] = rows_.axes;
    recorder_.program_.grains.Allow(to.name, SetOf(rows_.axes));
    std::vector<Dimension> dims(from.shape.begin(), from.shape.end());
    dims[dim] = to;
    recorder_.program_.instructions.push_back(std::move(instruction));
    const Value result = recorder_.AddFirstResult(
        from.dtype, Shape(std::move(dims)), std::move(layout), name);
    recorder_.program_.values[result.id].causes = from.causes;
    return result;
  }

  Recorder& recorder_;
  const RowsAttributes rows_;
  const RowPlan plan_;
};

namespace {

// The rows that the windows of `spec` need of a dimension of `size`.
RowsAttributes RowsOfWindows(const WindowSpec& spec, int64_t size,
                             const AxisList& axes) {
  RowsAttributes rows;
  rows.dimension = spec.dimension;
  rows.axes = axes;
  rows.sizes = {size};
  rows.offsets = {spec.before};
  rows.replicated = {false};
  rows.windows = spec.windows;
  rows.stride = spec.stride;
  rows.span = spec.span();
  rows.wrap = spec.wrap;
  rows.fill = spec.fill;
  return rows;
}

// The instruction that computes `value`, or null. Looks back from the last one:
// windows of windows are close to each other.
const Instruction* FindProducer(const Program& program, Value value) {
  for (size_t i = program.instructions.size(); i-- > 0;) {
    const Instruction& instruction = program.instructions[i];
    for (int result : instruction.results) {
      if (result == value.id) return &instruction;
    }
  }
  return nullptr;
}

// Windows that other windows are taken of.
struct InnerWindows {
  WindowAttributes attributes;
  int64_t count;
  Dimension window;
};

// Whether all elements of windows are elements of an unsharded dimension.
bool IsWithin(const WindowSpec& spec, int64_t size, const AxisList& axes) {
  return axes.empty() && spec.before == 0 && spec.extent() <= size;
}

}  // namespace

std::string Recorder::HaloName(const AxisList& axes, const Shape& shape) const {
  std::string name = "halo";
  if (!axes.empty())
    absl::StrAppend(&name, "-", program_.mesh.AxisNames(axes, "-"));
  while (shape.Contains(name) || binding_.grains.AxesOf(name) != 0 ||
         (program_.grains.AxesOf(name) & ~SetOf(axes)) != 0) {
    name += "-";
  }
  return name;
}

Value Recorder::PlaceRows(absl::Span<const Value> values,
                          const std::vector<int64_t>& offsets,
                          const std::string& dimension, int64_t size,
                          double fill, bool wrap, const TensorLayout& layout) {
  const int dim = at(values[0]).shape.Find(dimension);
  RowsAttributes rows;
  rows.dimension = dimension;
  rows.axes = layout.dims[dim];
  rows.offsets = offsets;
  rows.windows = size;
  rows.fill = fill;
  rows.wrap = wrap;
  bool sharded = false;
  for (Value value : values) {
    rows.sizes.push_back(at(value).shape.SizeOf(dimension));
    rows.replicated.push_back(at(value).layout.dims[dim].empty());
    sharded = sharded || !rows.replicated.back();
  }
  if (rows.axes.empty() || !sharded) return {};
  RowMover mover(*this, rows);
  if (!mover.SendsLessThanGather()) return {};
  std::vector<Value> operands;
  for (size_t k = 0; k < values.size(); ++k) {
    TensorLayout demanded = layout;
    if (rows.replicated[k]) demanded.dims[dim] = {};
    operands.push_back({Demand(values[k].id, demanded)});
  }
  return mover.Append(operands, dim, {dimension, size});
}

Value Recorder::Shift(Value value, const std::string& dimension, int64_t offset,
                      bool wrap) {
  value = InThisModule(value);
  const int64_t size = at(value).shape.SizeOf(dimension);
  const Value moved = PlaceRows({value}, {offset}, dimension, size, 0, wrap,
                                at(value).layout.Reduced());
  if (moved.valid()) return moved;
  const std::string dims[] = {dimension};
  value = Unshard(value, dims);
  RowsAttributes rows;
  rows.dimension = dimension;
  rows.sizes = {size};
  rows.offsets = {offset};
  rows.replicated = {false};
  rows.windows = size;
  rows.wrap = wrap;
  const Value values[] = {value};
  return RowMover(*this, rows)
      .Append(values, at(value).shape.Find(dimension), {dimension, size});
}

// Windows of windows along another dimension move rows of what the inner ones
// are taken of, which is smaller, and take the inner ones of the moved rows:
//
//   rows = place_rows(place_rows(x) height) width
//   y = windows(windows(rows) height, kh) width, kw
Value Recorder::Windows(Value value, const WindowSpec& spec) {
  const Shape shape = at(value).shape;
  const int64_t size = shape.SizeOf(spec.dimension);
  const Shape result =
      shape.Resized(spec.dimension, spec.windows).With(spec.window);
  const Shape* shapes[] = {&result};
  CheckUnion(shapes);
  value = {DemandRules(value)};
  const AxisList axes = at(value).layout.dims[shape.Find(spec.dimension)];
  WindowAttributes windows{spec.dimension, spec.window.name, spec.dimension,
                           spec.stride, spec.dilation};
  if (IsWithin(spec, size, axes)) {
    return AppendWindows(value, std::move(windows), spec.windows, spec.window);
  }
  std::vector<InnerWindows> inner;
  while (const Instruction* producer = FindProducer(program_, value)) {
    const auto* outer = producer->Find<WindowAttributes>();
    // The dimension may also be the window of those windows.
    if (producer->opcode != Opcode::kWindows ||
        outer->dimension == spec.dimension || outer->window == spec.dimension) {
      break;
    }
    const Shape& of_outer = at(value).shape;
    inner.push_back({*outer, of_outer.SizeOf(outer->dimension),
                     of_outer[of_outer.rank() - 1]});
    value = {producer->operands[0]};
  }
  RowsAttributes rows = RowsOfWindows(spec, size, axes);
  auto mover = std::make_unique<RowMover>(*this, rows);
  if (!mover->SendsLessThanGather()) {
    const std::string dims[] = {spec.dimension};
    value = Unshard(value, dims);
    rows.replicated = {true};
    mover = std::make_unique<RowMover>(*this, rows);
  }
  Shape names = result;
  for (const Dimension& dim : at(value).shape) {
    if (!names.Contains(dim.name)) names = names.With(dim);
  }
  windows.line = HaloName(axes, names);
  const Value values[] = {value};
  value = mover->Append(values, at(value).shape.Find(spec.dimension),
                        {windows.line, mover->LineSize()});
  for (auto each = inner.rbegin(); each != inner.rend(); ++each) {
    value = AppendWindows(value, each->attributes, each->count, each->window);
  }
  return AppendWindows(value, std::move(windows), spec.windows, spec.window);
}

// `count` windows of `line`, as a new last dimension.
Value Recorder::AppendWindows(Value line, WindowAttributes attributes,
                              int64_t count, const Dimension& window) {
  const ProgramValue from = at(line);  // Append may reallocate
  std::vector<Dimension> dims(from.shape.begin(), from.shape.end());
  dims[from.shape.Find(attributes.line)] = {attributes.dimension, count};
  dims.push_back(window);
  TensorLayout layout = from.layout;
  layout.dims.push_back({});
  Instruction instruction(Opcode::kWindows, std::move(attributes));
  instruction.operands = {line.id};
  return Append(std::move(instruction), from.dtype, Shape(std::move(dims)),
                std::move(layout));
}

// The sums of `windows` along `line`, without their last dimension.
Value Recorder::AppendFold(Value windows, WindowAttributes attributes,
                           const Dimension& line) {
  const ProgramValue from = at(windows);  // Append may reallocate
  const int dim = from.shape.Find(attributes.dimension);
  std::vector<Dimension> dims(from.shape.begin(), from.shape.end());
  dims[dim] = line;
  dims.pop_back();
  TensorLayout layout = from.layout;
  layout.dims.pop_back();
  program_.grains.Allow(line.name, SetOf(layout.dims[dim]));
  Instruction instruction(Opcode::kFoldWindows, std::move(attributes));
  instruction.operands = {windows.id};
  const Value sums = Append(std::move(instruction), from.dtype,
                            Shape(std::move(dims)), std::move(layout));
  program_.values[sums.id].causes = from.causes;
  return sums;
}

// As in Windows(), sums that are to move along another dimension are folded
// here first and moved after that, when there are fewer of them.
Value Recorder::FoldWindows(Value windows, const WindowSpec& spec,
                            int64_t size) {
  const Shape ordered =
      at(windows).shape.Without(spec.window.name).With(spec.window);
  if (!(at(windows).shape == ordered)) {
    windows = Map(
        MapExpression::Single(ScalarFunction::kIdentity, at(windows).dtype, 1),
        {windows}, ordered);
  }
  // Sums are folded first and reduced once, if the axes are free.
  TensorLayout layout = RuleLayout(ordered);
  layout.dims.back() = {};
  const TensorLayout& given = at(windows).layout;
  if (given.reduction == ReduceKind::kSum &&
      (layout.Sharded() & given.unreduced) == 0) {
    layout.unreduced = given.unreduced;
  }
  const int dim = ordered.Find(spec.dimension);
  RowsAttributes rows = RowsOfWindows(spec, size, layout.dims[dim]);
  rows.adds = true;
  rows.fill = 0;
  auto mover = std::make_unique<RowMover>(*this, rows);
  if (!mover->is_complete()) {
    rows.axes = layout.dims[dim] = {};
    mover = std::make_unique<RowMover>(*this, rows);
  }
  windows = {Demand(windows.id, layout)};
  struct Moved {
    RowsAttributes rows;
    int dim;
  };
  std::vector<Moved> moved;
  while (const Instruction* producer = FindProducer(program_, windows)) {
    const auto* earlier = producer->Find<RowsAttributes>();
    if (producer->opcode != Opcode::kPlaceRows || !earlier->adds ||
        earlier->dimension == spec.dimension ||
        earlier->dimension == spec.window.name) {
      break;
    }
    moved.push_back({*earlier, at(windows).shape.Find(earlier->dimension)});
    windows = {producer->operands[0]};
  }
  const bool within = IsWithin(spec, size, rows.axes);
  const Dimension line = within
                             ? Dimension{spec.dimension, size}
                             : Dimension{HaloName(rows.axes, at(windows).shape),
                                         mover->LineSize()};
  Value sums = AppendFold(
      windows,
      {spec.dimension, spec.window.name, line.name, spec.stride, spec.dilation},
      line);
  for (auto each = moved.rbegin(); each != moved.rend(); ++each) {
    const Value lines[] = {sums};
    sums = RowMover(*this, each->rows)
               .Append(lines, each->dim,
                       {each->rows.dimension, each->rows.sizes[0]});
  }
  const Value lines[] = {sums};
  return within ? sums : mover->Append(lines, dim, {spec.dimension, size});
}

}  // namespace mtf
