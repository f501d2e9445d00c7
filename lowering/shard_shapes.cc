// SPDX-License-Identifier: Apache-2.0
#include "lowering/shard_shapes.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "layouts/shard.h"
#include "lowering/by_shape.h"
#include "lowering/reduce_identity.h"
#include "lowering/reshape_layout.h"
#include "mtf/check.h"
#include "mtf/host_tensor.h"

namespace mtf {
namespace {

// What the padding along one dimension holds: one number everywhere, or
// nothing that can be relied on. Dimensions without padding hold anything.
using Fill = std::optional<double>;
using Fills = absl::InlinedVector<Fill, 5>;

bool SameFill(const Fill& fill, double wanted) {
  return fill.has_value() && *fill == wanted;
}

// What can be computed with: nothing that a double may only be near to. An
// infinity in an integer stands for its least or greatest number.
Fill Reliable(const Fill& fill, DType dtype) {
  if (!fill.has_value() || std::isnan(*fill)) return {};
  if (IsInteger(dtype) && !(std::abs(*fill) <= 0x1p53)) return {};
  return fill;
}

// The value of a step that is no source, if every kernel surely computes it to
// the same bits: as its dtype holds it, whatever the signs of zeros, which sums
// of zeros lose.
Fill FillOfStep(const MapStep& step, const double (&arguments)[3]) {
  if (step.function == ScalarFunction::kCast) {
    // Too large a number becomes another if it was a float than if it was not.
    constexpr double kMost = std::numeric_limits<int32_t>::max();
    if (step.dtype == kInt32 && std::abs(arguments[0]) > kMost) return {};
    return RoundToDType(arguments[0], step.dtype);
  }
  Fill result;
  for (int signs = 0; signs < 1 << step.arguments.size(); ++signs) {
    double x[3];
    for (int i = 0; i < 3; ++i) {
      const bool other = arguments[i] == 0 && (signs >> i & 1) != 0;
      x[i] = other ? -arguments[i] : arguments[i];
    }
    const double value = EvaluateScalar(step.function, x[0], x[1], x[2]);
    if (value != 0 && value != 1 && !std::isinf(value)) return {};
    if (result.has_value() && *result != value) return {};
    result = value;
  }
  return result;
}

class Sharder {
 public:
  explicit Sharder(Program& program) : program_(program) {}

  void Run() {
    for (ProgramValue& value : program_.values) SetLocal(value);
    fills_.resize(program_.values.size());
    std::vector<Instruction> before = std::move(program_.instructions);
    program_.instructions.clear();
    program_.instructions.reserve(before.size());
    for (Instruction& instruction : before) {
      MaskOperands(instruction);
      if (instruction.opcode == Opcode::kReduce) {
        instruction.iteration_local =
            Extents(instruction.iteration, instruction.iteration_layout);
      }
      for (size_t i = 0; i < instruction.results.size(); ++i) {
        fills_[instruction.results[i]] = ResultFills(instruction, i);
      }
      program_.instructions.push_back(std::move(instruction));
    }
  }

 private:
  using Extent = absl::InlinedVector<int64_t, 5>;

  Extent Extents(const Shape& shape, const TensorLayout& layout) {
    Extent extents = padded_.Get(shape, [this](const Shape& each) {
      Extent padded;
      for (const Dimension& dim : each) {
        padded.push_back(program_.grains.ExtentOf(dim));
      }
      return padded;
    });
    for (size_t i = 0; i < extents.size(); ++i) {
      const int64_t shards = program_.mesh.SizeOf(layout.dims[i]);
      MTF_CHECK_EQ(extents[i] % shards, 0);
      extents[i] /= shards;
    }
    return extents;
  }
  void SetLocal(ProgramValue& value) {
    value.local = Extents(value.shape, value.layout);
  }

  DType DTypeOf(int value) const { return program_.values[value].dtype; }

  bool IsPadded(const Dimension& dim) const {
    return program_.grains.ExtentOf(dim) != dim.size;
  }

  // The fill of `value` along the dimension called `name`.
  Fill FillOf(int value, absl::string_view name) const {
    const int i = program_.values[value].shape.Find(name);
    return i < 0 ? Fill() : fills_[value][i];
  }

  // Replaces operand `place` by a copy whose padding along `dims` is `fill`.
  void Mask(Instruction& instruction, int place, const std::vector<int>& dims,
            double fill) {
    const int value = instruction.operands[place];
    std::vector<int> wrong;
    for (int dim : dims) {
      if (IsPadded(program_.values[value].shape[dim]) &&
          !SameFill(fills_[value][dim], fill)) {
        wrong.push_back(dim);
      }
    }
    if (wrong.empty()) return;
    for (const Masked& known : masked_) {
      if (known.value == value && known.dims == wrong && known.fill == fill) {
        instruction.operands[place] = known.result;
        return;
      }
    }
    const ProgramValue from = program_.values[value];
    const int result =
        program_.AddValue(from.name, from.dtype, from.shape, from.layout);
    SetLocal(program_.values[result]);
    program_.values[result].causes = from.causes;
    Instruction mask;
    mask.opcode = Opcode::kMask;
    mask.operands = {value};
    mask.results = {result};
    mask.mask_dims = wrong;
    mask.fill = fill;
    mask.origin = instruction.origin;
    program_.instructions.push_back(std::move(mask));
    fills_.resize(program_.values.size());
    fills_[result] = MaskedFills(value, wrong, fill);
    masked_.push_back({value, wrong, fill, result});
    instruction.operands[place] = result;
  }

  Fills MaskedFills(int value, const std::vector<int>& dims,
                    double fill) const {
    // Corners lie in the padding of several dimensions, so another fill along
    // a dimension that was not masked no longer holds everywhere.
    Fills fills = fills_[value];
    for (Fill& other : fills) {
      if (!SameFill(other, fill)) other.reset();
    }
    for (int dim : dims) fills[dim] = fill;
    return fills;
  }

  void MaskOperands(Instruction& instruction) {
    switch (instruction.opcode) {
      case Opcode::kEinsum: {
        const Shape kept = program_.values[instruction.results[0]].shape;
        for (int place = 0; place < 2; ++place) {
          const Shape shape =
              program_.values[instruction.operands[place]].shape;
          std::vector<int> summed;
          for (int i = 0; i < shape.rank(); ++i) {
            if (!kept.Contains(shape[i].name)) summed.push_back(i);
          }
          // In both operands: zero times an infinity is not zero.
          Mask(instruction, place, summed, 0);
        }
        break;
      }
      case Opcode::kReduce: {
        const ProgramValue& result = program_.values[instruction.results[0]];
        const Shape kept = result.shape;
        const double identity =
            ReduceIdentity(instruction.reduce_kind, result.dtype);
        const Shape shape = program_.values[instruction.operands[0]].shape;
        std::vector<int> reduced;
        for (int i = 0; i < shape.rank(); ++i) {
          if (!kept.Contains(shape[i].name)) reduced.push_back(i);
        }
        Mask(instruction, 0, reduced, identity);
        break;
      }
      case Opcode::kWriteVariable: {
        const int rank = program_.values[instruction.operands[0]].shape.rank();
        std::vector<int> all(rank);
        for (int i = 0; i < rank; ++i) all[i] = i;
        Mask(instruction, 0, all, 0);
        break;
      }
      default:
        break;
    }
  }

  // The fill of a map along `name`, from those of its operands.
  Fill EvaluateFill(const Instruction& map, absl::string_view name) const {
    std::vector<Fill> known;
    for (int operand : map.operands) {
      known.push_back(Reliable(FillOf(operand, name), DTypeOf(operand)));
    }
    for (const MapStep& step : map.expression.steps) {
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

  Fills ResultFills(const Instruction& instruction, size_t place) const {
    const ProgramValue& result = program_.values[instruction.results[place]];
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
        for (Fill& fill : fills) fill = 0.0;
        break;
      case Opcode::kMap:
        for (int i = 0; i < result.shape.rank(); ++i) {
          if (IsPadded(result.shape[i])) {
            fills[i] = EvaluateFill(instruction, result.shape[i].name);
          }
        }
        break;
      case Opcode::kReduce:
        carry(instruction.operands[0]);
        if (instruction.reduce_kind == ReduceKind::kSum) KeepZeros(fills);
        break;
      case Opcode::kSlice:
      case Opcode::kPad:
      case Opcode::kConcat:
        for (int i = 0; i < result.shape.rank(); ++i) {
          const std::string& name = result.shape[i].name;
          fills[i] = FillOf(instruction.operands[0], name);
          for (int operand : instruction.operands) {
            if (FillOf(operand, name) != fills[i]) fills[i].reset();
          }
          // New places along the dimension hold what they hold in the padding
          // of the others too, so only zeros meet zeros.
          if (fills[i].has_value() && *fills[i] != 0) fills[i].reset();
          if (instruction.opcode == Opcode::kPad && instruction.fill != 0) {
            fills[i].reset();
          }
          if (name == instruction.dimension) fills[i] = 0.0;
        }
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
        fills[result.shape.Find(instruction.dimension)] = 0.0;
        break;
      case Opcode::kScan:
      case Opcode::kReduceBlocks:
        // Rows of zeros stay rows of zeros; kernels leave zeros behind the last
        // element along the dimension.
        for (int i = 0; i < result.shape.rank(); ++i) {
          const std::string& name = result.shape[i].name;
          bool zeros = instruction.reduce_kind == ReduceKind::kSum;
          for (int operand : instruction.operands) {
            zeros = zeros && SameFill(FillOf(operand, name), 0);
          }
          if (zeros || name == instruction.dimension) fills[i] = 0.0;
        }
        break;
      case Opcode::kTopK:
        fills.back() = 0.0;
        break;
      case Opcode::kMask:
        return MaskedFills(instruction.operands[0], instruction.mask_dims,
                           instruction.fill);
      case Opcode::kWriteVariable:
      case Opcode::kAllGather:
      case Opcode::kAllSlice:
      case Opcode::kAllToAll:
      case Opcode::kCollectivePermute:
        carry(instruction.operands[0]);
        break;
      case Opcode::kAllReduce:
      case Opcode::kReduceScatter:
        carry(instruction.operands[place]);
        if (instruction.reduce_kind == ReduceKind::kSum) KeepZeros(fills);
        break;
      case Opcode::kRandom:
      case Opcode::kEinsum:
      case Opcode::kOutput:
      case Opcode::kReshard:
      case Opcode::kWait:
        break;
    }
    return fills;
  }

  static void KeepZeros(Fills& fills) {
    for (Fill& fill : fills) {
      if (fill.has_value() && *fill != 0) fill.reset();
    }
  }

  void CarryThroughReshape(const Instruction& instruction,
                           const ProgramValue& result, Fills& fills) const {
    const int operand = instruction.operands[0];
    std::vector<std::pair<int, int>> pairs;
    if (IsRelabel(program_.values[operand], result, &pairs)) {
      for (const auto& [before, after] : pairs) {
        fills[after] = fills_[operand][before];
      }
      return;
    }
    // Any other reshape copies valid elements only and leaves zeros.
    for (Fill& fill : fills) fill = 0.0;
  }

  struct Masked {
    int value;
    std::vector<int> dims;
    double fill;
    int result;
  };

  Program& program_;
  internal::ByShape<Extent> padded_;  // the extents of all shards together
  std::vector<Fills> fills_;
  std::vector<Masked> masked_;
};

}  // namespace

double ReduceIdentity(ReduceKind kind, DType dtype) {
  if (kind == ReduceKind::kSum) return 0;
  const double sign = kind == ReduceKind::kMax ? -1 : 1;
  switch (dtype) {
    case kInt32:
      return kind == ReduceKind::kMax ? std::numeric_limits<int32_t>::min()
                                      : std::numeric_limits<int32_t>::max();
    case kBool:
      return kind == ReduceKind::kMax ? 0 : 1;
    default:
      // In int64 too, whose greatest number is no double.
      return sign * std::numeric_limits<double>::infinity();
  }
}

absl::Status ShardShapes(Program& program) {
  // Bytes of a whole program must fit 64 bits with room to spare; no device
  // holds a millionth of this.
  constexpr int64_t kMostElements = int64_t{1} << 44;
  for (const Instruction& instruction : program.instructions) {
    for (int result : instruction.results) {
      const ProgramValue& value = program.values[result];
      const int64_t elements =
          LocalElements(program.grains, value.shape, value.layout);
      if (elements <= kMostElements) continue;
      std::string made_by;
      if (instruction.origin >= 0) {
        const Origin& origin = program.origins[instruction.origin];
        made_by = absl::StrCat(" (", origin.operation, ", ",
                               origin.site.ToString(), ")");
      }
      return absl::ResourceExhaustedError(absl::StrCat(
          "\"", value.name, "\" ", DTypeName(value.dtype), "[",
          value.shape.ToString(), "] takes ", elements,
          " places on every device", made_by,
          "\n  help     make it smaller, or cut it over more devices"));
    }
  }
  Sharder(program).Run();
  return absl::OkStatus();
}

}  // namespace mtf
