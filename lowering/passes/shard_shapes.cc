// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/shard_shapes.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "lowering/passes/padding_fills.h"
#include "lowering/program/reduce_identity.h"
#include "lowering/program/shape_cache.h"
#include "mtf/check.h"
#include "mtf/status.h"

namespace mtf {
namespace {

using Extents = absl::InlinedVector<int64_t, 5>;

// Computes per-device extents.
class ExtentSetter {
 public:
  explicit ExtentSetter(Program& program) : program_(program) {}

  void SetLocal(ProgramValue& value) {
    SetExtents(value.shape, value.layout, value.name, value.local);
  }
  void SetLocal(Instruction& reduce) {
    auto& attributes = reduce.Get<ReduceAttributes>();
    SetExtents(attributes.iteration, attributes.iteration_layout,
               program_.values[reduce.results[0]].name,
               attributes.iteration_local);
  }

  // Whether any dimension so far has padding.
  bool has_padding() const { return has_padding_; }

 private:
  void SetExtents(const Shape& shape, const TensorLayout& layout,
                  const std::string& tensor, Extents& extents) {
    extents = padded_.Get(shape, [this](const Shape& each) {
      Extents padded;
      for (const Dimension& dim : each) {
        padded.push_back(program_.grains.ExtentOf(dim));
        has_padding_ = has_padding_ || padded.back() != dim.size;
      }
      return padded;
    });
    for (size_t i = 0; i < extents.size(); ++i) {
      const AxisList& axes = layout.dims[i];
      if (axes.empty()) continue;
      const int64_t shards = program_.mesh.SizeOf(axes);
      MTF_CHECK_EQ(extents[i] % shards, 0)
          << "extent " << extents[i] << " of \""
          << shape[static_cast<int>(i)].name << "\" of \"" << tensor
          << "\" does not divide by " << shards
          << " shards: Grains::Allow was not called for "
          << program_.mesh.AxisNames(axes);
      extents[i] /= shards;
    }
  }

  Program& program_;
  // By shape: extents with padding, not yet divided by the shards.
  internal::ShapeCache<Extents> padded_;
  bool has_padding_ = false;
};

// Inserts the masks.
class MaskWriter {
 public:
  MaskWriter(Program& program, ExtentSetter& extent_setter)
      : program_(program), extents_(extent_setter), fills_(program) {}

  void Run() {
    std::vector<Instruction> before = std::move(program_.instructions);
    program_.instructions.clear();
    program_.instructions.reserve(before.size());
    for (Instruction& instruction : before) {
      MaskOperands(instruction);
      fills_.Propagate(instruction);
      program_.instructions.push_back(std::move(instruction));
    }
  }

 private:
  // Replaces operand `index` by a copy whose padding along `dims` is `fill`,
  // unless it is known to be already.
  void Mask(Instruction& instruction, int index, const std::vector<int>& dims,
            double fill) {
    const int value = instruction.operands[index];
    std::vector<int> wrong;
    for (int dim : dims) {
      if (fills_.IsPadded(value, dim) && !fills_.PaddingIs(value, dim, fill)) {
        wrong.push_back(dim);
      }
    }
    if (wrong.empty()) return;
    for (const Masked& known : masked_) {
      if (known.value == value && known.dims == wrong && known.fill == fill) {
        instruction.operands[index] = known.result;
        return;
      }
    }
    const ProgramValue from = program_.values[value];
    const int result =
        program_.AddValue(from.name, from.dtype, from.shape, from.layout);
    extents_.SetLocal(program_.values[result]);
    program_.values[result].causes = from.causes;
    Instruction mask(Opcode::kMask, MaskAttributes{wrong, fill});
    mask.operands = {value};
    mask.results = {result};
    mask.origin = instruction.origin;
    fills_.Propagate(mask);
    program_.instructions.push_back(std::move(mask));
    masked_.push_back({value, wrong, fill, result});
    instruction.operands[index] = result;
  }

  void MaskOperands(Instruction& instruction) {
    switch (instruction.opcode) {
      case Opcode::kEinsum: {
        const Shape kept = program_.values[instruction.results[0]].shape;
        for (int index = 0; index < 2; ++index) {
          const Shape shape =
              program_.values[instruction.operands[index]].shape;
          std::vector<int> summed;
          for (int i = 0; i < shape.rank(); ++i) {
            if (!kept.Contains(shape[i].name)) summed.push_back(i);
          }
          // Both operands need zeros: zero times infinity is not zero.
          Mask(instruction, index, summed, 0);
        }
        break;
      }
      case Opcode::kReduce: {
        const ProgramValue& result = program_.values[instruction.results[0]];
        const Shape kept = result.shape;
        const double identity =
            ReduceIdentity(ReductionOf(instruction), result.dtype);
        const Shape shape = program_.values[instruction.operands[0]].shape;
        std::vector<int> reduced;
        for (int i = 0; i < shape.rank(); ++i) {
          if (!kept.Contains(shape[i].name)) reduced.push_back(i);
        }
        Mask(instruction, 0, reduced, identity);
        break;
      }
      case Opcode::kUpdateSlice: {
        // Zeros in the padding of the value stay: a mask of the update is
        // cheap, one of the result would read and write all of it.
        const ProgramValue& value = program_.values[instruction.operands[0]];
        const Shape rows = program_.values[instruction.operands[1]].shape;
        std::vector<int> kept;
        for (int i = 0; i < rows.rank(); ++i) {
          const int there = value.shape.Find(rows[i].name);
          if (there >= 0 && !fills_.KeepsPadding(instruction, rows[i].name) &&
              fills_.PaddingIs(instruction.operands[0], there, 0)) {
            kept.push_back(i);
          }
        }
        Mask(instruction, 1, kept, 0);
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

  struct Masked {
    int value;
    std::vector<int> dims;
    double fill;
    int result;
  };

  Program& program_;
  ExtentSetter& extents_;
  PaddingFills fills_;
  std::vector<Masked> masked_;
};

// The elements of a shard; INT64_MAX if the product overflows.
int64_t SaturatedElements(const ProgramValue& value) {
  int64_t elements = 1;
  for (int64_t extent : value.local) {
    if (__builtin_mul_overflow(elements, extent, &elements)) {
      elements = std::numeric_limits<int64_t>::max();
    }
  }
  return elements;
}

absl::Status CheckElements(const Program& program) {
  for (const Instruction& instruction : program.instructions) {
    for (int result : instruction.results) {
      const ProgramValue& value = program.values[result];
      const int64_t elements = SaturatedElements(value);
      if (elements <= kMaxLocalElements) continue;
      std::string made_by;
      if (instruction.origin >= 0) {
        const Origin& origin = program.origins[instruction.origin];
        made_by = absl::StrCat(" (", origin.operation, ", ",
                               origin.site.ToString(), ")");
      }
      return absl::ResourceExhaustedError(absl::StrCat(
          "\"", value.name, "\" ", DTypeName(value.dtype), "[",
          value.shape.ToString(), "] takes ", elements,
          " elements on every device", made_by,
          "\n  help     make it smaller, or shard it over more devices"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ShardShapes(Program& program) {
  ExtentSetter extent_setter(program);
  for (ProgramValue& value : program.values) extent_setter.SetLocal(value);
  MTF_RETURN_IF_ERROR(CheckElements(program));
  for (Instruction& instruction : program.instructions) {
    if (instruction.opcode == Opcode::kReduce)
      extent_setter.SetLocal(instruction);
  }
  if (extent_setter.has_padding()) MaskWriter(program, extent_setter).Run();
  return absl::OkStatus();
}

}  // namespace mtf
