// SPDX-License-Identifier: Apache-2.0
#include "lowering/verify/verify_shapes.h"

#include <algorithm>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "lowering/program/operand_counts.h"
#include "lowering/verify/verify_expressions.h"

namespace mtf::internal {
namespace {

absl::Status Bad(absl::string_view what) { return absl::InternalError(what); }

class Checker {
 public:
  Checker(const Program& program, const Instruction& instruction)
      : program_(program), instruction_(instruction) {}

  absl::Status Run() const {
    const Opcode opcode = instruction_.opcode;
    if (const std::string wrong =
            WrongOperandCount(opcode, instruction_.operands.size());
        !wrong.empty()) {
      return Bad(wrong);
    }
    if (opcode == Opcode::kOutput || opcode == Opcode::kWait) {
      return instruction_.results.empty()
                 ? absl::OkStatus()
                 : Bad(absl::StrCat(OpcodeName(opcode), " gives nothing"));
    }
    if (instruction_.results.empty()) return Bad("there is no result");
    const size_t most = opcode == Opcode::kTopK ? 2 : 1;
    if (instruction_.results.size() > most && !IsCollective(opcode)) {
      return Bad("there is more than one result");
    }
    switch (opcode) {
      case Opcode::kInput:
      case Opcode::kOutput:
      case Opcode::kReadVariable:
      case Opcode::kRandom:
        return absl::OkStatus();
      case Opcode::kConstant:
        return static_cast<int64_t>(instruction_.data.size()) ==
                       result().shape.num_elements()
                   ? absl::OkStatus()
                   : Bad("a constant has one number per element");
      case Opcode::kMap:
        return VerifyExpression(program_, instruction_, result().shape);
      case Opcode::kReduce:
        MTF_RETURN_IF_ERROR(
            VerifyExpression(program_, instruction_, instruction_.iteration));
        return VerifyWithin(result().shape, instruction_.iteration);
      case Opcode::kEinsum:
        return CheckEinsum();
      case Opcode::kReshape:
        if (operand(0).shape.num_elements() != result().shape.num_elements()) {
          return Bad("a reshape keeps the number of elements");
        }
        return CheckDType(operand(0));
      case Opcode::kSlice:
      case Opcode::kPad:
      case Opcode::kConcat:
        return CheckMovement();
      case Opcode::kGather:
        return CheckGather(operand(0), result());
      case Opcode::kScatterAdd:
        return CheckGather(result(), operand(0));
      case Opcode::kScan:
        return CheckScan();
      case Opcode::kReduceBlocks:
        return CheckBlockSums(operand(0), result());
      case Opcode::kTopK:
        return CheckTopK();
      case Opcode::kMask:
        for (int dim : instruction_.mask_dims) {
          if (!IsPlace(dim)) return Bad("a mask of no dimension");
        }
        return CheckSameType();
      case Opcode::kWriteVariable:
      case Opcode::kReshard:
        return CheckSameType();
      default:
        return CheckCollective();
    }
  }

 private:
  const ProgramValue& operand(size_t i) const {
    return program_.values[instruction_.operands[i]];
  }
  const ProgramValue& result(size_t i = 0) const {
    return program_.values[instruction_.results[i]];
  }
  bool IsPlace(int dim) const {
    return dim >= 0 && dim < operand(0).shape.rank();
  }

  absl::Status CheckDType(const ProgramValue& operand) const {
    return operand.dtype == result().dtype ? absl::OkStatus()
                                           : Bad("the dtype changes");
  }
  absl::Status CheckSameType() const {
    if (!(operand(0).shape == result().shape)) return Bad("the shape changes");
    return CheckDType(operand(0));
  }

  absl::Status CheckEinsum() const {
    const Shape &x = operand(0).shape, &y = operand(1).shape;
    const DType dtype = operand(0).dtype;
    if (operand(1).dtype != dtype ||
        (result().dtype != dtype &&
         !(result().dtype == kFloat32 && IsFloat(dtype)))) {
      return Bad("an einsum has one dtype, or a result of f32");
    }
    for (const Dimension& dim : y) {
      const int at = x.Find(dim.name);
      if (at >= 0 && x[at].size != dim.size) {
        return BadDimension(dim.name, "has two sizes");
      }
    }
    for (const Dimension& dim : result().shape) {
      const Shape& from = x.Contains(dim.name) ? x : y;
      const int at = from.Find(dim.name);
      if (at < 0) return BadDimension(dim.name, "comes from nowhere");
      if (from[at].size != dim.size) {
        return BadDimension(dim.name, "has two sizes");
      }
    }
    return absl::OkStatus();
  }

  // slice, pad and concat: all keep every dimension but one.
  absl::Status CheckMovement() const {
    const std::string& moved = instruction_.dimension;
    const Shape& after = result().shape;
    const int at = after.Find(moved);
    int64_t before = 0;
    for (size_t i = 0; i < instruction_.operands.size(); ++i) {
      MTF_RETURN_IF_ERROR(CheckDType(operand(i)));
      const Shape& shape = operand(i).shape;
      if (at < 0 || shape.rank() != after.rank() || shape[at].name != moved) {
        return BadDimension(moved, "is not in operand and result");
      }
      for (int d = 0; d < after.rank(); ++d) {
        if (d != at && !(shape[d] == after[d])) {
          return BadDimension(after[d].name, "changes");
        }
      }
      before += shape[at].size;
    }
    const int64_t size = after[at].size, begin = instruction_.begin;
    bool fits = size == before;  // concat
    if (instruction_.opcode == Opcode::kSlice) {
      fits = begin >= 0 && begin <= before && size <= before - begin;
    } else if (instruction_.opcode == Opcode::kPad) {
      fits = begin >= 0 && before <= size && begin <= size - before;
    }
    return fits ? absl::OkStatus()
                : BadDimension(moved, "does not fit into its range");
  }

  // Rows of `table` by the indices; a scatter_add is the same backwards.
  absl::Status CheckGather(const ProgramValue& table,
                           const ProgramValue& rows) const {
    const ProgramValue& indices = operand(1);
    const std::string& dimension = instruction_.dimension;
    if (!IsInteger(indices.dtype)) return Bad("the indices are no integers");
    if (table.dtype != rows.dtype) return Bad("the dtype changes");
    if (!table.shape.Contains(dimension) || indices.shape.Contains(dimension)) {
      return BadDimension(dimension, "is not the table's alone");
    }
    for (const Dimension& dim : indices.shape) {
      const int at = table.shape.Find(dim.name);
      if (at >= 0 && table.shape[at].size != dim.size) {
        return BadDimension(dim.name, "has two sizes");
      }
    }
    // A dimension of the rows is one of the indices or of the table; nothing
    // but the dimension looked up is lost.
    for (const Dimension& dim : rows.shape) {
      const Shape& from =
          indices.shape.Contains(dim.name) ? indices.shape : table.shape;
      const int at = from.Find(dim.name);
      if (at < 0 || dim.name == dimension) {
        return BadDimension(dim.name, "comes from nowhere");
      }
      if (from[at].size != dim.size) {
        return BadDimension(dim.name, "has two sizes");
      }
    }
    for (const Shape* shape : {&indices.shape, &table.shape}) {
      for (const Dimension& dim : *shape) {
        if (dim.name != dimension && !rows.shape.Contains(dim.name)) {
          return BadDimension(dim.name, "is lost");
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckScan() const {
    MTF_RETURN_IF_ERROR(CheckSameType());
    if (!operand(0).shape.Contains(instruction_.dimension)) {
      return BadDimension(instruction_.dimension, "is not in the operand");
    }
    if (instruction_.operands.size() == 1) return absl::OkStatus();
    return CheckBlockSums(operand(0), operand(1));
  }

  // The shape of `value` with one place for each block of the dimension.
  Shape Blocks(const ProgramValue& value) const {
    const std::string& dimension = instruction_.dimension;
    return value.shape.Resized(dimension, program_.grains.GrainOf(dimension));
  }

  // `sums` has a place for each block of the dimension of `value`.
  absl::Status CheckBlockSums(const ProgramValue& value,
                              const ProgramValue& sums) const {
    if (!value.shape.Contains(instruction_.dimension)) {
      return BadDimension(instruction_.dimension, "is not in the operand");
    }
    if (!(sums.shape == Blocks(value))) {
      return BadDimension(instruction_.dimension,
                          "has not one place for each block");
    }
    if (value.dtype == kBool) return Bad("bools are not reduced in blocks");
    return sums.dtype == (IsFloat(value.dtype) ? kFloat32 : value.dtype)
               ? absl::OkStatus()
               : Bad("blocks of floats are reduced in f32");
  }

  absl::Status CheckTopK() const {
    const ProgramValue& value = operand(0);
    const int dim = value.shape.Find(instruction_.dimension);
    if (dim < 0) {
      return BadDimension(instruction_.dimension, "is not in the operand");
    }
    const bool blocks = instruction_.results.size() == 2;
    const bool labelled = instruction_.operands.size() == 2;
    if (blocks && labelled) return Bad("what has labels is not cut in blocks");
    if (labelled &&
        (operand(1).dtype != kInt32 || !(operand(1).shape == value.shape))) {
      return Bad("the labels are no i32 for each element");
    }
    if (result(blocks ? 1 : 0).dtype != kInt32) {
      return Bad("the places are no i32");
    }
    if (value.dtype == kBool) return Bad("bools are not ranked");
    const Shape row = value.shape.Without(instruction_.dimension);
    const int64_t grain = program_.grains.GrainOf(instruction_.dimension);
    const Shape kept = blocks ? row.With({instruction_.dimension, grain}) : row;
    const Shape& after = result().shape;
    if (after.rank() != kept.rank() + 1 ||
        !(after == kept.With(after[after.rank() - 1]))) {
      return Bad(
          "the result is not the operand with one dimension for another");
    }
    if (blocks) {
      MTF_RETURN_IF_ERROR(CheckDType(value));
      if (!(result(1).shape == after) ||
          !(result(1).layout == result().layout)) {
        return Bad("values and places differ in shape or layout");
      }
    }
    const int last = after.rank() - 1;
    if (!result().layout.dims[last].empty()) {
      return BadDimension(after[last].name, "is cut where it must be whole");
    }
    const int64_t most =
        blocks ? program_.grains.ExtentOf(value.shape[dim]) / grain
               : value.shape[dim].size;
    return after[last].size <= most
               ? absl::OkStatus()
               : BadDimension(after[last].name, "is more than there is");
  }

  absl::Status CheckCollective() const {
    if (instruction_.operands.size() != instruction_.results.size()) {
      return Bad("a collective gives one result per operand");
    }
    for (size_t i = 0; i < instruction_.operands.size(); ++i) {
      if (operand(i).dtype != result(i).dtype ||
          !(operand(i).shape == result(i).shape)) {
        return Bad("a collective keeps dtype and shape");
      }
    }
    if (instruction_.axes.empty()) return Bad("a collective over no axis");
    AxisSet axes = 0;
    for (int axis : instruction_.axes) {
      if (axis < 0 || axis >= program_.mesh.num_axes() || (axes >> axis & 1)) {
        return Bad("a collective over an axis twice, or over none of the mesh");
      }
      axes |= AxisSet{1} << axis;
    }
    switch (instruction_.opcode) {
      case Opcode::kAllReduce:
      case Opcode::kCollectivePermute:
        return absl::OkStatus();
      case Opcode::kAllToAll:
        if (!IsPlace(instruction_.from_dim) ||
            instruction_.from_dim == instruction_.dim) {
          return Bad("an all_to_all is between two dimensions");
        }
        [[fallthrough]];
      default:
        return IsPlace(instruction_.dim) ? absl::OkStatus()
                                         : Bad("a collective of no dimension");
    }
  }

  const Program& program_;
  const Instruction& instruction_;
};

}  // namespace

absl::Status VerifyShapes(const Program& program,
                          const Instruction& instruction) {
  return Checker(program, instruction).Run();
}

}  // namespace mtf::internal
