// SPDX-License-Identifier: Apache-2.0
#include "lowering/verify/verify_shapes.h"

#include <algorithm>
#include <string>
#include <variant>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "lowering/verify/verify_attention.h"
#include "lowering/verify/verify_expressions.h"
#include "lowering/verify/verify_rows.h"
#include "mtf/sliced_rows.h"

namespace mtf::internal {
namespace {

class ShapeVerifier {
 public:
  ShapeVerifier(const Program& program, const Instruction& instruction)
      : program_(program), instruction_(instruction) {}

  absl::Status Run() const {
    const Opcode opcode = instruction_.opcode;
    if (!instruction_.HasItsAttributes()) {
      return Bad(
          absl::StrCat("the attributes are not those of ", OpcodeName(opcode)));
    }
    if (const std::string wrong =
            WrongOperandCount(opcode, instruction_.operands.size());
        !wrong.empty()) {
      return Bad(wrong);
    }
    const ValueCount& results = InfoOf(opcode).results;
    if (results.most == 0) {
      return instruction_.results.empty()
                 ? absl::OkStatus()
                 : Bad(absl::StrCat(OpcodeName(opcode), " has no result"));
    }
    if (instruction_.results.empty()) return Bad("there is no result");
    if (instruction_.results.size() > results.most) {
      return Bad("there is more than one result");
    }
    return std::visit(
        [this](const auto& attributes) { return Check(attributes); },
        instruction_.attributes);
  }

 private:
  const ProgramValue& operand(size_t i) const {
    return program_.values[instruction_.operands[i]];
  }
  const ProgramValue& result(size_t i = 0) const {
    return program_.values[instruction_.results[i]];
  }
  bool IsDimension(int dim) const {
    return dim >= 0 && dim < operand(0).shape.rank();
  }

  absl::Status Check(const MapAttributes& map) const {
    return VerifyExpression(program_, instruction_, map.expression,
                            result().shape);
  }

  absl::Status Check(const NoAttributes&) const {
    if (instruction_.opcode != Opcode::kReshape) return CheckSameType();
    if (operand(0).shape.num_elements() != result().shape.num_elements()) {
      return Bad("a reshape keeps the number of elements");
    }
    return CheckDType(operand(0));
  }

  absl::Status Check(const NameAttributes&) const {
    return instruction_.opcode == Opcode::kWriteVariable ? CheckSameType()
                                                         : absl::OkStatus();
  }

  absl::Status Check(const ConstantAttributes& constant) const {
    return static_cast<int64_t>(constant.elements.size()) ==
                   result().shape.num_elements()
               ? absl::OkStatus()
               : Bad("a constant has one number per element");
  }

  absl::Status Check(const RandomAttributes&) const { return absl::OkStatus(); }

  absl::Status Check(const EinsumAttributes&) const {
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
      if (at < 0) return BadDimension(dim.name, "is in no operand");
      if (from[at].size != dim.size) {
        return BadDimension(dim.name, "has two sizes");
      }
    }
    return absl::OkStatus();
  }

  absl::Status Check(const ReduceAttributes& reduce) const {
    MTF_RETURN_IF_ERROR(VerifyExpression(program_, instruction_,
                                         reduce.expression, reduce.iteration));
    return VerifyWithin(result().shape, reduce.iteration);
  }

  absl::Status Check(const SliceAttributes& slice) const {
    MTF_RETURN_IF_ERROR(CheckMovement(slice.dimension));
    const int64_t before = operand(0).shape.SizeOf(slice.dimension);
    const int64_t size = result().shape.SizeOf(slice.dimension);
    return CheckRange(slice.dimension, slice.begin, size, before);
  }

  absl::Status Check(const PadAttributes& pad) const {
    MTF_RETURN_IF_ERROR(CheckMovement(pad.dimension));
    const int64_t before = operand(0).shape.SizeOf(pad.dimension);
    const int64_t size = result().shape.SizeOf(pad.dimension);
    return CheckRange(pad.dimension, pad.before, before, size);
  }

  absl::Status Check(const ConcatAttributes& concat) const {
    MTF_RETURN_IF_ERROR(CheckMovement(concat.dimension));
    int64_t size = 0;
    for (size_t i = 0; i < instruction_.operands.size(); ++i) {
      size += operand(i).shape.SizeOf(concat.dimension);
    }
    return size == result().shape.SizeOf(concat.dimension)
               ? absl::OkStatus()
               : BadDimension(concat.dimension, "does not fit into its range");
  }

  absl::Status Check(const RowsAttributes&) const {
    return VerifyRowShapes(program_, instruction_);
  }

  absl::Status Check(const WindowAttributes&) const {
    return VerifyWindowShapes(program_, instruction_);
  }

  // A scatter_add relates updates and table as a gather relates its result and
  // the table.
  absl::Status Check(const GatherAttributes& gather) const {
    return instruction_.opcode == Opcode::kGather
               ? CheckGather(gather.dimension, operand(0), result())
               : CheckGather(gather.dimension, result(), operand(0));
  }

  absl::Status Check(const CheckIndexAttributes& check) const {
    if (!IsInteger(operand(0).dtype)) return Bad("the index must be integers");
    MTF_RETURN_IF_ERROR(CheckRange(check.dimension, 0, check.rows, check.size));
    return CheckSameType();
  }

  // The rows are the result of a dynamic_slice and the update of an
  // update_slice, whose result has the type of the first operand.
  absl::Status Check(const DynamicSliceAttributes& slice) const {
    const bool updates = instruction_.opcode == Opcode::kUpdateSlice;
    if (updates) MTF_RETURN_IF_ERROR(CheckSameType());
    const ProgramValue &value = operand(0), &index = operand(updates ? 2 : 1);
    const ProgramValue& rows = updates ? operand(1) : result();
    if (rows.dtype != value.dtype) return Bad("the dtype changes");
    if (!IsInteger(index.dtype)) return Bad("the index must be integers");
    if (!value.shape.Contains(slice.dimension)) {
      return BadDimension(slice.dimension, "is not in the operand");
    }
    const int dim = FindRowsDimension(value.shape, rows.shape, slice.dimension);
    const Shape others =
        dim < 0 ? rows.shape : rows.shape.Without(rows.shape[dim].name);
    if (!others.SameDimensions(value.shape.Without(slice.dimension))) {
      return Bad("the rows lack a dimension, or have another one");
    }
    for (const Dimension& each : index.shape) {
      const int there = others.Find(each.name);
      if (there < 0 || !(others[there] == each)) {
        return BadDimension(each.name, "of the index is not in the rows");
      }
    }
    return CheckRange(slice.dimension, 0, dim < 0 ? 1 : rows.shape[dim].size,
                      value.shape.SizeOf(slice.dimension));
  }

  absl::Status Check(const ScanAttributes& scan) const {
    MTF_RETURN_IF_ERROR(CheckSameType());
    if (!operand(0).shape.Contains(scan.dimension)) {
      return BadDimension(scan.dimension, "is not in the operand");
    }
    if (instruction_.operands.size() == 1) return absl::OkStatus();
    return CheckBlocks(scan.dimension, operand(0), operand(1));
  }

  absl::Status Check(const ReduceBlocksAttributes& blocks) const {
    return CheckBlocks(blocks.dimension, operand(0), result());
  }

  absl::Status Check(const TopKAttributes& top_k) const {
    const ProgramValue& value = operand(0);
    const int dim = value.shape.Find(top_k.dimension);
    if (dim < 0) {
      return BadDimension(top_k.dimension, "is not in the operand");
    }
    const bool with_values = instruction_.results.size() == 2;
    const bool blocks = result().shape.Contains(top_k.dimension);
    const bool labelled = instruction_.operands.size() == 2;
    if (blocks && labelled) return Bad("blocks have no labels");
    if (blocks && !with_values) return Bad("blocks have values and indices");
    if (labelled &&
        (operand(1).dtype != kInt32 || !(operand(1).shape == value.shape))) {
      return Bad("the labels must be one i32 per element");
    }
    if (result(with_values ? 1 : 0).dtype != kInt32) {
      return Bad("the indices must be i32");
    }
    if (value.dtype == kBool) return Bad("bools are not ranked");
    const Shape row = value.shape.Without(top_k.dimension);
    const int64_t grain = program_.grains.GrainOf(top_k.dimension);
    const Shape kept = blocks ? row.With({top_k.dimension, grain}) : row;
    const Shape& after = result().shape;
    if (after.rank() != kept.rank() + 1 ||
        !(after == kept.With(after[after.rank() - 1]))) {
      return Bad(
          "the result must have one dimension in place of the ranked one");
    }
    if (with_values) {
      MTF_RETURN_IF_ERROR(CheckDType(value));
      if (!(result(1).shape == after) ||
          !(result(1).layout == result().layout)) {
        return Bad("values and indices differ in shape or layout");
      }
    }
    const int last = after.rank() - 1;
    if (!result().layout.dims[last].empty()) {
      return BadDimension(after[last].name, "is sharded but must not be");
    }
    const int64_t most =
        blocks ? program_.grains.ExtentOf(value.shape[dim]) / grain
               : value.shape[dim].size;
    return after[last].size <= most
               ? absl::OkStatus()
               : BadDimension(after[last].name,
                              "exceeds the number of elements");
  }

  absl::Status Check(const AttentionAttributes&) const {
    return VerifyAttentionShapes(program_, instruction_);
  }

  absl::Status Check(const MaskAttributes& mask) const {
    for (int dim : mask.dims) {
      if (!IsDimension(dim))
        return Bad("the mask names a dimension that the operand lacks");
    }
    return CheckSameType();
  }

  absl::Status Check(const CollectiveAttributes& collective) const {
    if (instruction_.operands.size() != instruction_.results.size()) {
      return Bad("a collective has one result per operand");
    }
    for (size_t i = 0; i < instruction_.operands.size(); ++i) {
      if (operand(i).dtype != result(i).dtype ||
          !(operand(i).shape == result(i).shape)) {
        return Bad("a collective keeps dtype and shape");
      }
    }
    if (collective.axes.empty()) return Bad("the collective names no axis");
    AxisSet axes = 0;
    for (int axis : collective.axes) {
      if (axis < 0 || axis >= program_.mesh.num_axes() || (axes >> axis & 1)) {
        return Bad(
            "the collective names an axis twice, or one that the mesh lacks");
      }
      axes |= AxisSet{1} << axis;
    }
    switch (instruction_.opcode) {
      case Opcode::kAllReduce:
      case Opcode::kCollectivePermute:
        return absl::OkStatus();
      case Opcode::kAllToAll:
        if (collective.stripes == CollectiveAttributes::Stripes::kNone &&
            (!IsDimension(collective.from_dim) ||
             collective.from_dim == collective.dim)) {
          return Bad("an all_to_all needs two different dimensions");
        }
        [[fallthrough]];
      default:
        return IsDimension(collective.dim)
                   ? absl::OkStatus()
                   : Bad("the collective names a dimension that the operand "
                         "lacks");
    }
  }

  absl::Status CheckDType(const ProgramValue& operand) const {
    return operand.dtype == result().dtype ? absl::OkStatus()
                                           : Bad("the dtype changes");
  }
  absl::Status CheckSameType() const {
    if (!(operand(0).shape == result().shape)) return Bad("the shape changes");
    return CheckDType(operand(0));
  }

  // slice, pad and concat keep every dimension but one.
  absl::Status CheckMovement(const std::string& moved) const {
    const Shape& after = result().shape;
    const int at = after.Find(moved);
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
    }
    return absl::OkStatus();
  }

  // `size` elements from `begin` on are within `limit`. Written as differences,
  // which cannot overflow.
  static absl::Status CheckRange(const std::string& dimension, int64_t begin,
                                 int64_t size, int64_t limit) {
    const bool fits = begin >= 0 && begin <= limit && size <= limit - begin;
    return fits ? absl::OkStatus()
                : BadDimension(dimension, "does not fit into its range");
  }

  // Rows of `table` by the indices; a scatter_add is the same backwards.
  absl::Status CheckGather(const std::string& dimension,
                           const ProgramValue& table,
                           const ProgramValue& rows) const {
    const ProgramValue& indices = operand(1);
    if (!IsInteger(indices.dtype)) return Bad("the indices must be integers");
    if (table.dtype != rows.dtype) return Bad("the dtype changes");
    if (!table.shape.Contains(dimension) || indices.shape.Contains(dimension)) {
      return BadDimension(dimension,
                          "must be in the table and not in the indices");
    }
    for (const Dimension& dim : indices.shape) {
      const int at = table.shape.Find(dim.name);
      if (at >= 0 && table.shape[at].size != dim.size) {
        return BadDimension(dim.name, "has two sizes");
      }
    }
    // A dimension of the rows is one of the indices or of the table; nothing
    // but the dimension looked up is missing in the result.
    for (const Dimension& dim : rows.shape) {
      const Shape& from =
          indices.shape.Contains(dim.name) ? indices.shape : table.shape;
      const int at = from.Find(dim.name);
      if (at < 0 || dim.name == dimension) {
        return BadDimension(dim.name,
                            "is neither in the table nor in the indices");
      }
      if (from[at].size != dim.size) {
        return BadDimension(dim.name, "has two sizes");
      }
    }
    for (const Shape* shape : {&indices.shape, &table.shape}) {
      for (const Dimension& dim : *shape) {
        if (dim.name != dimension && !rows.shape.Contains(dim.name)) {
          return BadDimension(dim.name, "is missing in the result");
        }
      }
    }
    return absl::OkStatus();
  }

  // `sums` has one element for each block of the dimension of `value`.
  absl::Status CheckBlocks(const std::string& dimension,
                           const ProgramValue& value,
                           const ProgramValue& sums) const {
    if (!value.shape.Contains(dimension)) {
      return BadDimension(dimension, "is not in the operand");
    }
    if (!(sums.shape ==
          value.shape.Resized(dimension, program_.grains.GrainOf(dimension)))) {
      return BadDimension(dimension, "does not have one element per block");
    }
    if (value.dtype == kBool) return Bad("bools are not reduced in blocks");
    return sums.dtype == (IsFloat(value.dtype) ? kFloat32 : value.dtype)
               ? absl::OkStatus()
               : Bad("blocks of floats are reduced in f32");
  }

  const Program& program_;
  const Instruction& instruction_;
};

}  // namespace

absl::Status VerifyShapes(const Program& program,
                          const Instruction& instruction) {
  return ShapeVerifier(program, instruction).Run();
}

}  // namespace mtf::internal
