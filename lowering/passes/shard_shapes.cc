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

// Gives values their extents.
class Sharder {
 public:
  explicit Sharder(Program& program) : program_(program) {}

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
          << "\" is not cut evenly by " << shards
          << " shards: Grains::Allow was not told of "
          << program_.mesh.AxisNames(axes);
      extents[i] /= shards;
    }
  }

  Program& program_;
  internal::ShapeCache<Extents> padded_;  // the extents of all shards together
  bool has_padding_ = false;
};

// Writes masks.
class Masker {
 public:
  Masker(Program& program, Sharder& sharder)
      : program_(program), sharder_(sharder), fills_(program) {}

  void Run() {
    std::vector<Instruction> before = std::move(program_.instructions);
    program_.instructions.clear();
    program_.instructions.reserve(before.size());
    for (Instruction& instruction : before) {
      MaskOperands(instruction);
      fills_.Follow(instruction);
      program_.instructions.push_back(std::move(instruction));
    }
  }

 private:
  // Replaces operand `place` by a copy whose padding along `dims` is `fill`.
  void Mask(Instruction& instruction, int place, const std::vector<int>& dims,
            double fill) {
    const int value = instruction.operands[place];
    std::vector<int> wrong;
    for (int dim : dims) {
      if (fills_.IsPadded(value, dim) && !fills_.Holds(value, dim, fill)) {
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
    sharder_.SetLocal(program_.values[result]);
    program_.values[result].causes = from.causes;
    Instruction mask(Opcode::kMask, MaskAttributes{wrong, fill});
    mask.operands = {value};
    mask.results = {result};
    mask.origin = instruction.origin;
    fills_.Follow(mask);
    program_.instructions.push_back(std::move(mask));
    masked_.push_back({value, wrong, fill, result});
    instruction.operands[place] = result;
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
            ReduceIdentity(ReductionOf(instruction), result.dtype);
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

  struct Masked {
    int value;
    std::vector<int> dims;
    double fill;
    int result;
  };

  Program& program_;
  Sharder& sharder_;
  PaddingFills fills_;
  std::vector<Masked> masked_;
};

// Bytes of a whole program must fit 64 bits with room to spare; no device holds
// a millionth of this.
constexpr int64_t kMostElements = int64_t{1} << 44;

// Elements on every device; products that leave int64 are its greatest number.
int64_t LocalElements(const ProgramValue& value) {
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
      const int64_t elements = LocalElements(value);
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
  return absl::OkStatus();
}

}  // namespace

absl::Status ShardShapes(Program& program) {
  Sharder sharder(program);
  for (ProgramValue& value : program.values) sharder.SetLocal(value);
  MTF_RETURN_IF_ERROR(CheckElements(program));
  for (Instruction& instruction : program.instructions) {
    if (instruction.opcode == Opcode::kReduce) sharder.SetLocal(instruction);
  }
  if (sharder.has_padding()) Masker(program, sharder).Run();
  return absl::OkStatus();
}

}  // namespace mtf
