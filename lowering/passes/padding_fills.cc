// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/padding_fills.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "lowering/program/reshape_layout.h"
#include "mtf/host_tensor.h"
#include "mtf/sliced_rows.h"

namespace mtf {
namespace {

using Fill = std::optional<double>;

bool SameFill(const Fill& fill, double wanted) {
  return fill.has_value() && *fill == wanted;
}

// The fill if it can be computed with, else nullopt: a double represents
// integers exactly only up to 2^53. (An infinity in an integer dtype stands for
// its lowest or highest number.)
Fill Reliable(const Fill& fill, DType dtype) {
  if (!fill.has_value() || std::isnan(*fill)) return {};
  if (IsInteger(dtype) && !(std::abs(*fill) <= 0x1p53)) return {};
  return fill;
}

// The result of a step that has arguments, if every kernel is certain to
// compute the same bits: as its dtype represents it, and for both signs of zero
// arguments, because sums of zeros lose the sign.
Fill FillOfStep(const MapStep& step, const double (&arguments)[3]) {
  if (step.function == ScalarFunction::kCast) {
    // Out-of-range conversions to i32 differ between float and integer sources.
    constexpr double kMost = std::numeric_limits<int32_t>::max();
    if (step.dtype == kInt32 && std::abs(arguments[0]) > kMost) return {};
    return RoundToDType(arguments[0], step.dtype);
  }
  Fill result;
  for (int signs = 0; signs < 1 << step.arguments.size(); ++signs) {
    double x[3];
    for (int i = 0; i < 3; ++i) {
      const bool negate = arguments[i] == 0 && (signs >> i & 1) != 0;
      x[i] = negate ? -arguments[i] : arguments[i];
    }
    const double value = EvaluateScalar(step.function, x[0], x[1], x[2]);
    if (value != 0 && value != 1 && !std::isinf(value)) return {};
    if (result.has_value() && *result != value) return {};
    result = value;
  }
  return result;
}

// Of a reduce without operands.
bool IsSumOfZeros(const Instruction& reduce) {
  const MapStep& element = ExpressionOf(reduce).steps.back();
  return ReductionOf(reduce) == ReduceKind::kSum &&
         element.function == ScalarFunction::kLiteral && element.number() == 0;
}

template <class Fills>
void KeepZeros(Fills& fills) {
  for (Fill& fill : fills) {
    if (fill.has_value() && *fill != 0) fill.reset();
  }
}

}  // namespace

void PaddingFills::Propagate(const Instruction& instruction) {
  fills_.resize(program_.values.size());
  for (size_t i = 0; i < instruction.results.size(); ++i) {
    fills_[instruction.results[i]] = ResultFills(instruction, i);
  }
}

bool PaddingFills::IsPadded(int value, int dim) const {
  const ProgramValue& of = program_.values[value];
  return of.local[dim] * program_.mesh.SizeOf(of.layout.dims[dim]) !=
         of.shape[dim].size;
}

bool PaddingFills::PaddingIs(int value, int dim, double number) const {
  return SameFill(fills_[value][dim], number);
}

bool PaddingFills::PaddingIsUnknown(int value, int dim) const {
  return !fills_[value][dim].has_value();
}

// The fill of `value` along the dimension called `name`.
PaddingFills::Fill PaddingFills::FillOf(int value,
                                        absl::string_view name) const {
  const int i = program_.values[value].shape.Find(name);
  return i < 0 ? Fill() : fills_[value][i];
}

PaddingFills::Fills PaddingFills::MaskedFills(const Instruction& mask) const {
  // The padding of two dimensions overlaps in corners, so the mask invalidates
  // a different fill along a dimension that it does not mask.
  Fills fills = fills_[mask.operands[0]];
  const auto& [dims, fill] = mask.Get<MaskAttributes>();
  for (Fill& other : fills) {
    if (!SameFill(other, fill)) other.reset();
  }
  for (int dim : dims) fills[dim] = fill;
  return fills;
}

// The fill of a map along `name`, from those of its operands.
PaddingFills::Fill PaddingFills::EvaluateFill(const Instruction& map,
                                              absl::string_view name) const {
  std::vector<Fill> known;
  for (int operand : map.operands) {
    known.push_back(
        Reliable(FillOf(operand, name), program_.values[operand].dtype));
  }
  for (const MapStep& step : ExpressionOf(map).steps) {
    Fill result;
    if (step.function == ScalarFunction::kLiteral) {
      result = step.number();
    } else if (step.function != ScalarFunction::kIota) {
      double arguments[3] = {};
      bool all = true;
      for (size_t i = 0; i < step.arguments.size(); ++i) {
        const Fill& argument = known[step.arguments[i]];
        all = all && argument.has_value();
        if (argument.has_value()) arguments[i] = *argument;
      }
      if (all) result = FillOfStep(step, arguments);
    }
    known.push_back(Reliable(result, step.dtype));
  }
  return known.back();
}

// The fill of a slice, pad or concat along `name`.
PaddingFills::Fill PaddingFills::MovedFill(const Instruction& instruction,
                                           absl::string_view name) const {
  if (name == DimensionOf(instruction)) return 0.0;
  // New elements along the dimension also fill the padding of the other
  // dimensions, where they contain zeros; so only zeros stay known.
  if (instruction.opcode == Opcode::kPad && mtf::FillOf(instruction) != 0) {
    return {};
  }
  for (int operand : instruction.operands) {
    if (!SameFill(FillOf(operand, name), 0)) return {};
  }
  return 0.0;
}

// The fill of rows that are moved, or of windows, along `name`.
PaddingFills::Fill PaddingFills::RowsFill(const Instruction& instruction,
                                          absl::string_view name) const {
  const auto* windows = instruction.Find<WindowAttributes>();
  if (windows != nullptr) {
    // Kernels write zeros after the last window, and in the padding of windows.
    if (name == windows->dimension || name == windows->window ||
        name == windows->line) {
      return 0.0;
    }
  } else if (name == DimensionOf(instruction)) {
    return 0.0;
  } else if (mtf::FillOf(instruction) != 0) {
    return {};  // it fills the padding of the other dimensions, too
  }
  for (int operand : instruction.operands) {
    if (!SameFill(FillOf(operand, name), 0)) return {};
  }
  return 0.0;
}

// The fill of a scan or reduce_blocks along `name`.
PaddingFills::Fill PaddingFills::ScannedFill(const Instruction& instruction,
                                             absl::string_view name) const {
  // Kernels write zeros after the last valid element along the dimension.
  if (name == DimensionOf(instruction)) return 0.0;
  // Rows of zeros stay rows of zeros.
  if (ReductionOf(instruction) != ReduceKind::kSum) return {};
  for (int operand : instruction.operands) {
    if (!SameFill(FillOf(operand, name), 0)) return {};
  }
  return 0.0;
}

bool PaddingFills::KeepsPadding(const Instruction& update,
                                absl::string_view name) const {
  return name == DimensionOf(update) ||
         program_.values[update.operands[2]].shape.Contains(name);
}

// The fill of a result along dimension `i`, of an instruction for which each
// dimension can be told alone.
PaddingFills::Fill PaddingFills::FillAlong(const Instruction& instruction,
                                           int result, int i) const {
  const std::string& name = program_.values[result].shape[i].name;
  switch (instruction.opcode) {
    case Opcode::kMap:
      return IsPadded(result, i) ? EvaluateFill(instruction, name) : Fill();
    case Opcode::kSlice:
    case Opcode::kPad:
    case Opcode::kConcat:
      return MovedFill(instruction, name);
    case Opcode::kTakeRows:
    case Opcode::kPlaceRows:
    case Opcode::kWindows:
    case Opcode::kFoldWindows:
      return RowsFill(instruction, name);
    case Opcode::kScan:
    case Opcode::kReduceBlocks:
      return ScannedFill(instruction, name);
    default:
      return {};
  }
}

PaddingFills::Fills PaddingFills::ResultFills(const Instruction& instruction,
                                              size_t index) const {
  const ProgramValue& result = program_.values[instruction.results[index]];
  Fills fills(result.shape.rank());
  const auto carry = [&](int operand) {
    for (int i = 0; i < result.shape.rank(); ++i) {
      fills[i] = FillOf(operand, result.shape[i].name);
    }
  };
  switch (instruction.opcode) {
    case Opcode::kInput:
    case Opcode::kReadVariable:
    case Opcode::kConstant:
    case Opcode::kCheckIndex:
      for (Fill& fill : fills) fill = 0.0;
      break;
    case Opcode::kMap:
    case Opcode::kSlice:
    case Opcode::kPad:
    case Opcode::kConcat:
    case Opcode::kTakeRows:
    case Opcode::kPlaceRows:
    case Opcode::kWindows:
    case Opcode::kFoldWindows:
    case Opcode::kScan:
    case Opcode::kReduceBlocks:
      for (int i = 0; i < result.shape.rank(); ++i) {
        fills[i] = FillAlong(instruction, instruction.results[index], i);
      }
      break;
    case Opcode::kReduce:
      // After fuse_maps it may sum indices or a literal.
      if (instruction.operands.empty()) {
        if (IsSumOfZeros(instruction)) {
          for (Fill& fill : fills) fill = 0.0;
        }
        break;
      }
      carry(instruction.operands[0]);
      if (ReductionOf(instruction) == ReduceKind::kSum) KeepZeros(fills);
      break;
    case Opcode::kReshape:
      CarryThroughReshape(instruction, result, fills);
      break;
    case Opcode::kGather: {
      const Shape& indices = program_.values[instruction.operands[1]].shape;
      carry(instruction.operands[0]);
      KeepZeros(fills);
      for (int i = 0; i < result.shape.rank(); ++i) {
        if (indices.Contains(result.shape[i].name)) fills[i] = 0.0;
      }
      break;
    }
    case Opcode::kScatterAdd:
      carry(instruction.operands[0]);
      KeepZeros(fills);
      fills[result.shape.Find(DimensionOf(instruction))] = 0.0;
      break;
    case Opcode::kDynamicSlice:
      carry(instruction.operands[0]);
      KeepZeros(fills);
      FillSlicedRows(instruction, result.shape, fills);
      break;
    case Opcode::kUpdateSlice:
      carry(instruction.operands[0]);
      DropReplacedFills(instruction, result.shape, fills);
      break;
    case Opcode::kTopK:
      fills.back() = 0.0;
      break;
    case Opcode::kMask:
      return MaskedFills(instruction);
    case Opcode::kWriteVariable:
    case Opcode::kCopyToDevice:
    case Opcode::kCopyToHost:
    case Opcode::kDepend:
    case Opcode::kAllGather:
    case Opcode::kAllSlice:
    case Opcode::kAllToAll:
    case Opcode::kCollectivePermute:
      carry(instruction.operands[0]);
      break;
    case Opcode::kAllReduce:
    case Opcode::kReduceScatter:
      carry(instruction.operands[index]);
      if (ReductionOf(instruction) == ReduceKind::kSum) KeepZeros(fills);
      break;
    case Opcode::kRandom:
    case Opcode::kEinsum:
    case Opcode::kAttention:
    case Opcode::kAttentionGradient:
    case Opcode::kOutput:
    case Opcode::kReshard:
    case Opcode::kWait:
      break;
  }
  return fills;
}

// The padding of the rows of a dynamic_slice is 0.
void PaddingFills::FillSlicedRows(const Instruction& slice, const Shape& result,
                                  Fills& fills) const {
  const int rows = FindRowsDimension(program_.values[slice.operands[0]].shape,
                                     result, DimensionOf(slice));
  if (rows >= 0) fills[rows] = 0.0;
}

// An update_slice may write padding with another value.
void PaddingFills::DropReplacedFills(const Instruction& update,
                                     const Shape& result, Fills& fills) const {
  for (int i = 0; i < result.rank(); ++i) {
    const std::string& name = result[i].name;
    if (!KeepsPadding(update, name) && fills[i].has_value() &&
        !SameFill(FillOf(update.operands[1], name), *fills[i])) {
      fills[i].reset();
    }
  }
}

// IsRelabel skips dimensions of one element. A sharded one is padding on all
// ranks but the first along its axes, before and after the reshape.
void PaddingFills::CarryThroughOnes(int operand, const ProgramValue& result,
                                    Fills& fills) const {
  const ProgramValue& before = program_.values[operand];
  const auto is_one = [](const ProgramValue& value, int i) {
    return value.shape[i].size == 1 && value.local[i] == 1 &&
           !value.layout.dims[i].empty();
  };
  for (int i = 0; i < result.shape.rank(); ++i) {
    if (!is_one(result, i)) continue;
    for (int j = 0; j < before.shape.rank(); ++j) {
      if (is_one(before, j) && before.layout.dims[j] == result.layout.dims[i]) {
        fills[i] = fills_[operand][j];
      }
    }
  }
}

void PaddingFills::CarryThroughReshape(const Instruction& instruction,
                                       const ProgramValue& result,
                                       Fills& fills) const {
  const int operand = instruction.operands[0];
  std::vector<std::pair<int, int>> pairs;
  if (IsRelabel(program_.values[operand], result, &pairs)) {
    for (const auto& [before, after] : pairs) {
      fills[after] = fills_[operand][before];
    }
    CarryThroughOnes(operand, result, fills);
    return;
  }
  // Any other reshape copies valid elements only and leaves zeros.
  for (Fill& fill : fills) fill = 0.0;
}

}  // namespace mtf
