// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/pool_spec.h"

#include <limits>
#include <string>

#include "absl/algorithm/container.h"

namespace mtf {
namespace {

// What does not change the result of a reduction.
double IdentityOf(ReduceKind kind) {
  if (kind == ReduceKind::kSum) return 0;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return kind == ReduceKind::kMax ? -kInfinity : kInfinity;
}

bool HasSameElements(const ProgramValue& x, const ProgramValue& y) {
  return x.shape == y.shape && x.local == y.local;
}

bool ReadsOnly(const Instruction& instruction, int value) {
  return instruction.operands.size() == 1 && instruction.operands[0] == value;
}

bool IsSingle(const MapExpression& expression, ScalarFunction function) {
  return expression.steps.size() == 1 &&
         expression.steps[0].function == function;
}

// Analyses instructions one after the other: each of its functions takes those
// that begin at the next member, and returns false if there are none.
class PoolFinder {
 public:
  PoolFinder(const Program& program, absl::Span<const int> members)
      : program_(program), members_(members) {}

  bool Find(PoolSpec* spec) {
    if (members_.empty() || At(0).operands.empty()) return false;
    spec->input = At(0).operands[0];
    if (Value(spec->input).dtype != kFloat32) return false;
    int input = spec->input, dim = -1;
    while (!AtEnd()) {
      PoolSpec::Stage& stage = spec->stages.emplace_back();
      if (Value(input).dtype != kFloat32) return false;
      int windows = -1;
      if (!TakeWindows(input, &windows, stage.windows)) return false;
      if (!TakeReduce(windows, stage)) return false;
      if (dim_ <= dim) return false;
      dim = dim_;
      input = Next(-1).results[0];
      if (TakeMapOf(input)) {
        stage.map = members_[next_ - 1];
        input = Next(-1).results[0];
      }
    }
    return true;
  }

  bool Find(PoolGradientSpec* spec) {
    int dim = -1, before = -1;
    while (!AtEnd()) {
      PoolGradientSpec::Stage& stage = spec->stages.emplace_back();
      if (!TakeGradient(stage, before)) return false;
      if (dim >= 0 && dim_ >= dim) return false;
      dim = dim_;
      before = stage.result;
    }
    return !spec->stages.empty();
  }

 private:
  const Instruction& At(size_t i) const {
    return program_.instructions[members_[i]];
  }
  bool AtEnd(size_t later = 0) const {
    return next_ + later >= members_.size();
  }
  const Instruction& Next(int later = 0) const { return At(next_ + later); }
  const ProgramValue& Value(int value) const { return program_.values[value]; }

  bool HasNoPadding(const ProgramValue& value, int dim) const {
    return dim >= 0 && !value.local.empty() &&
           value.local[dim] * program_.mesh.SizeOf(value.layout.dims[dim]) ==
               value.shape[dim].size;
  }

  // Fills in the extents from the line, which is dimension dim_ of `line`, and
  // from the windows.
  bool SetExtents(const ProgramValue& line, const ProgramValue& in_windows,
                  const WindowAttributes& attributes, PoolWindows& windows) {
    const int rank = line.shape.rank(), window = in_windows.shape.rank() - 1;
    if (window != rank || !HasNoPadding(line, dim_) ||
        !HasNoPadding(in_windows, dim_) || !HasNoPadding(in_windows, window) ||
        in_windows.shape[window].name != attributes.window ||
        in_windows.shape[dim_].name != attributes.dimension ||
        in_windows.local[window] != in_windows.shape[window].size) {
      return false;
    }
    for (int i = 0; i < rank; ++i) {
      int64_t& extent = i < dim_    ? windows.outer
                        : i == dim_ ? windows.line
                                    : windows.inner;
      if (i == dim_) extent = 1;
      extent *= line.local[i];
    }
    windows.windows = in_windows.local[dim_];
    windows.window = in_windows.local[window];
    windows.stride = attributes.stride;
    windows.dilation = attributes.dilation;
    return windows.window >= 1 && windows.window <= kMostPooled;
  }

  // [place_rows,] windows, of `input`.
  bool TakeWindows(int input, int* result, PoolWindows& windows) {
    int line = input;
    std::string dimension;
    if (!AtEnd(1) && IsPadding(Next()) && !Next().Get<RowsAttributes>().adds &&
        Next().operands[0] == input) {
      const auto& rows = Next().Get<RowsAttributes>();
      dimension = rows.dimension;
      windows.before = rows.offsets[0];
      windows.fill = rows.fill;
      has_padding_ = true;
      line = Next().results[0];
      ++next_;
    } else {
      has_padding_ = false;
    }
    if (AtEnd() || Next().opcode != Opcode::kWindows ||
        Next().operands[0] != line) {
      return false;
    }
    const auto& attributes = Next().Get<WindowAttributes>();
    dim_ = Value(line).shape.Find(attributes.line);
    if (dim_ < 0 ||
        (has_padding_ && Value(input).shape.Find(dimension) != dim_))
      return false;
    *result = Next().results[0];
    if (!SetExtents(Value(input), Value(*result), attributes, windows)) {
      return false;
    }
    ++next_;
    return true;
  }

  bool TakeReduce(int windows, PoolSpec::Stage& stage) {
    if (AtEnd() || !ReadsOnly(Next(), windows)) return false;
    const auto* reduce = Next().Find<ReduceAttributes>();
    if (reduce == nullptr ||
        !IsSingle(reduce->expression, ScalarFunction::kIdentity) ||
        !IsOfWindows(Next().results[0], windows) ||
        (has_padding_ && stage.windows.fill != IdentityOf(reduce->kind))) {
      return false;
    }
    stage.kind = reduce->kind;
    stage.windows.fill = IdentityOf(reduce->kind);
    stage.reduce = members_[next_++];
    return true;
  }

  // Whether `value` has one element for each one of `windows`.
  bool IsOfWindows(int value, int windows) const {
    const ProgramValue &result = Value(value), &of = Value(windows);
    const int rank = result.shape.rank();
    if (rank + 1 != of.shape.rank() || result.dtype != kFloat32) return false;
    for (int i = 0; i < rank; ++i) {
      if (result.shape[i] != of.shape[i] || result.local[i] != of.local[i]) {
        return false;
      }
    }
    return true;
  }

  // A map with the elements of `value`, which it reads.
  bool TakeMapOf(int value) {
    if (AtEnd() || Next().opcode != Opcode::kMap ||
        !absl::c_linear_search(Next().operands, value) ||
        !HasSameElements(Value(Next().results[0]), Value(value))) {
      return false;
    }
    ++next_;
    return true;
  }

  // The gradient along one dimension, of `before` if it is not -1.
  bool TakeGradient(PoolGradientSpec::Stage& stage, int before) {
    windows_ = hit_ = spread_ = -1;
    const bool masked = !HasExpression(Next());
    if (masked && !TakeHits(stage)) return false;
    if (!AtEnd(1) && HasExpression(Next()) && HasExpression(Next(1))) {
      stage.maps.push_back(members_[next_]);
      ++next_;
    }
    if (!(masked ? TakeSelect(stage) : TakeRepeat(stage)) || !TakeFold(stage)) {
      return false;
    }
    const bool has_f32 = Value(stage.share).dtype == kFloat32 &&
                         Value(stage.result).dtype == kFloat32 &&
                         (!masked || (Value(stage.input).dtype == kFloat32 &&
                                      Value(stage.output).dtype == kFloat32));
    return has_f32 && MapsAreOfWindows(stage) && Reads(stage, before);
  }

  // Whether the share is computed from `value`, if it is not -1.
  bool Reads(const PoolGradientSpec::Stage& stage, int value) const {
    if (value < 0) return true;
    if (stage.maps.empty()) return stage.share == value;
    return absl::c_linear_search(program_.instructions[stage.maps[0]].operands,
                                 value);
  }

  // [place_rows,] windows, equal, reduce.
  bool TakeHits(PoolGradientSpec::Stage& stage) {
    if (Next().operands.empty()) return false;
    stage.input = Next().operands[0];
    if (!TakeWindows(stage.input, &windows_, stage.windows) || AtEnd(1)) {
      return false;
    }
    const Instruction& equal = Next();
    const auto* map = equal.Find<MapAttributes>();
    if (map == nullptr || equal.operands.size() != 2 ||
        !IsSingle(map->expression, ScalarFunction::kEqual) ||
        !HasSameElements(Value(equal.results[0]), Value(windows_))) {
      return false;
    }
    const bool is_first = equal.operands[0] == windows_;
    if (!is_first && equal.operands[1] != windows_) return false;
    stage.output = equal.operands[is_first ? 1 : 0];
    hit_ = equal.results[0];
    if (!IsOfWindows(stage.output, windows_)) return false;
    ++next_;
    const auto* reduce = Next().Find<ReduceAttributes>();
    if (reduce == nullptr || !ReadsOnly(Next(), hit_) ||
        reduce->kind != ReduceKind::kSum ||
        !IsSingle(reduce->expression, ScalarFunction::kCast) ||
        !IsOfWindows(Next().results[0], windows_)) {
      return false;
    }
    stage.hits = Next().results[0];
    ++next_;
    return true;
  }

  bool TakeSelect(PoolGradientSpec::Stage& stage) {
    if (AtEnd() || !SelectsHits(Next()) || Next().operands[0] != hit_ ||
        !HasSameElements(Value(Next().results[0]), Value(windows_))) {
      return false;
    }
    stage.share = Next().operands[1];
    spread_ = Next().results[0];
    ++next_;
    return IsOfWindows(stage.share, windows_);
  }

  bool TakeRepeat(PoolGradientSpec::Stage& stage) {
    if (AtEnd() || !RepeatsAlongWindows(program_, Next())) return false;
    spread_ = windows_ = Next().results[0];
    const auto& expression = Next().Get<MapAttributes>().expression;
    if (IsSingle(expression, ScalarFunction::kIdentity) &&
        IsOfWindows(Next().operands[0], windows_)) {
      stage.share = Next().operands[0];
    } else {
      stage.share = spread_;
      stage.maps.push_back(members_[next_]);
    }
    ++next_;
    return true;
  }

  // fold_windows [, place_rows].
  bool TakeFold(PoolGradientSpec::Stage& stage) {
    if (AtEnd() || Next().opcode != Opcode::kFoldWindows ||
        Next().operands[0] != spread_) {
      return false;
    }
    const auto attributes = Next().Get<WindowAttributes>();
    PoolWindows windows;
    stage.result = Next().results[0];
    const ProgramValue& line = Value(stage.result);
    dim_ = line.shape.Find(attributes.line);
    ++next_;
    if (!AtEnd() && IsPadding(Next()) && Next().Get<RowsAttributes>().adds &&
        Next().operands[0] == stage.result) {
      const auto& rows = Next().Get<RowsAttributes>();
      stage.result = Next().results[0];
      if (Value(stage.result).shape.Find(rows.dimension) != dim_) return false;
      windows.before = rows.offsets[0];
      ++next_;
    }
    if (dim_ < 0 ||
        !SetExtents(Value(stage.result), Value(spread_), attributes, windows)) {
      return false;
    }
    if (stage.input < 0) {
      stage.windows = windows;
      return true;
    }
    const PoolWindows& of = stage.windows;
    return of.outer == windows.outer && of.line == windows.line &&
           of.inner == windows.inner && of.windows == windows.windows &&
           of.window == windows.window && of.stride == windows.stride &&
           of.dilation == windows.dilation && of.before == windows.before;
  }

  // Whether the maps, or without them the share, have one element for each
  // window, and each reads the value before it.
  bool MapsAreOfWindows(const PoolGradientSpec::Stage& stage) const {
    int before = stage.hits;
    for (int map : stage.maps) {
      const Instruction& instruction = program_.instructions[map];
      const int result = instruction.results[0];
      if (instruction.opcode != Opcode::kMap ||
          (result != spread_ && !IsOfWindows(result, windows_)) ||
          (before >= 0 &&
           !absl::c_linear_search(instruction.operands, before))) {
        return false;
      }
      before = result;
    }
    return stage.maps.empty() ? stage.hits < 0 : before == stage.share;
  }

  const Program& program_;
  const absl::Span<const int> members_;
  size_t next_ = 0;
  int dim_ = -1;  // of the last windows
  bool has_padding_ = false;
  // Of a gradient: values.
  int windows_ = -1, hit_ = -1, spread_ = -1;
};

}  // namespace

bool IsPadding(const Instruction& instruction) {
  const auto* rows = instruction.Find<RowsAttributes>();
  return instruction.opcode == Opcode::kPlaceRows && rows->axes.empty() &&
         instruction.operands.size() == 1 && rows->sizes.size() == 1 &&
         !rows->wrap;
}

bool SelectsHits(const Instruction& instruction) {
  const auto* map = instruction.Find<MapAttributes>();
  if (map == nullptr || map->expression.steps.size() != 2) return false;
  const MapStep &zero = map->expression.steps[0],
                &select = map->expression.steps[1];
  return instruction.operands.size() == 2 &&
         zero.function == ScalarFunction::kLiteral && zero.literal == 0 &&
         select.function == ScalarFunction::kSelect &&
         select.arguments == StepArguments{0, 1, 2};
}

bool RepeatsAlongWindows(const Program& program, const Instruction& map) {
  if (map.opcode != Opcode::kMap) return false;
  const Shape& shape = program.values[map.results[0]].shape;
  if (shape.rank() == 0) return false;
  const std::string& window = shape[shape.rank() - 1].name;
  for (int operand : map.operands) {
    if (program.values[operand].shape.Contains(window)) return false;
  }
  for (const MapStep& step : map.Get<MapAttributes>().expression.steps) {
    if (step.function == ScalarFunction::kIota && step.dimension == window) {
      return false;
    }
  }
  return true;
}

std::optional<PoolSpec> FindPool(const Program& program,
                                 absl::Span<const int> members) {
  PoolSpec spec;
  if (!PoolFinder(program, members).Find(&spec)) return std::nullopt;
  return spec;
}

std::optional<PoolGradientSpec> FindPoolGradient(
    const Program& program, absl::Span<const int> members) {
  PoolGradientSpec spec;
  if (!PoolFinder(program, members).Find(&spec)) return std::nullopt;
  return spec;
}

}  // namespace mtf
