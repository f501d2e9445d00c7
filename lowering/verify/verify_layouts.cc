// SPDX-License-Identifier: Apache-2.0
#include "lowering/verify/verify_layouts.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "layouts/shard.h"
#include "lowering/program/linearity.h"
#include "lowering/verify/verify_attention.h"
#include "lowering/verify/verify_expressions.h"
#include "lowering/verify/verify_rows.h"

namespace mtf::internal {
namespace {

class LayoutVerifier {
 public:
  LayoutVerifier(const Program& program, const std::vector<bool>& looked_up)
      : program_(program), looked_up_(looked_up) {}

  absl::Status Check(const Instruction& instruction) const {
    if (IsCollective(instruction.opcode)) return CheckCollective(instruction);
    switch (instruction.opcode) {
      case Opcode::kInput:
      case Opcode::kConstant:
      case Opcode::kRandom:
      case Opcode::kReshape:
        return CheckUnreduced(instruction);
      case Opcode::kReadVariable:  // VerifyProgram checks variables
      case Opcode::kWriteVariable:
      case Opcode::kWait:
        return absl::OkStatus();
      case Opcode::kOutput:
        return CheckLinear(instruction);
      case Opcode::kReshard:
        return CheckReshard(instruction);
      case Opcode::kSlice:
      case Opcode::kPad:
      case Opcode::kConcat:
        MTF_RETURN_IF_ERROR(CheckUnsharded(instruction));
        break;
      case Opcode::kTakeRows:
      case Opcode::kPlaceRows:
      case Opcode::kWindows:
      case Opcode::kFoldWindows:
        MTF_RETURN_IF_ERROR(VerifyRowLayouts(program_, instruction));
        return CheckUnreduced(instruction);
      case Opcode::kDynamicSlice:
      case Opcode::kUpdateSlice:
        MTF_RETURN_IF_ERROR(CheckDynamicSlice(instruction));
        return CheckUnreduced(instruction);
      case Opcode::kDepend:  // the operands do not meet
        if (!(program_.values[instruction.results[0]].layout ==
              operand(instruction, 0).layout)) {
          return Bad("the result has another layout than the value");
        }
        return CheckUnreduced(instruction);
      case Opcode::kAttention:
      case Opcode::kAttentionGradient:
        MTF_RETURN_IF_ERROR(CheckUnion(instruction));
        return VerifyAttentionLayouts(program_, instruction);
      case Opcode::kScan:
      case Opcode::kTopK:
        // A scan or top_k within blocks stays within shards. One along the
        // whole dimension needs it unsharded.
        if (!RunsInBlocks(instruction)) {
          const ProgramValue& value = operand(instruction, 0);
          const int dim = value.shape.Find(DimensionOf(instruction));
          if (!value.layout.dims[dim].empty()) {
            return ShardedDimension(instruction);
          }
        }
        break;
      default:
        break;
    }
    MTF_RETURN_IF_ERROR(CheckUnion(instruction));
    return CheckUnreduced(instruction);
  }

 private:
  const ProgramValue& operand(const Instruction& instruction, int i) const {
    return program_.values[instruction.operands[i]];
  }
  // Of a scan or a top_k.
  bool RunsInBlocks(const Instruction& instruction) const {
    if (instruction.opcode == Opcode::kScan) {
      return instruction.operands.size() == 2;
    }
    return program_.values[instruction.results[0]].shape.Contains(
        DimensionOf(instruction));
  }
  absl::Status CheckReshard(const Instruction& instruction) const {
    const TensorLayout& from = operand(instruction, 0).layout;
    const TensorLayout& to = program_.values[instruction.results[0]].layout;
    if ((to.unreduced & ~from.unreduced) != 0) {
      return Bad("a reshard cannot make a value unreduced");
    }
    if (to.unreduced != 0 && to.reduction != from.reduction) {
      return Bad("the result is unreduced with another kind of reduction");
    }
    return absl::OkStatus();
  }

  // A dimension has one sharding, and the union of dimensions uses every mesh
  // axis at most once, apart from the keys of a ring.
  absl::Status CheckUnion(const Instruction& instruction) const {
    struct Sharding {
      const std::string* name;
      const AxisList* axes;
    };
    absl::InlinedVector<Sharding, 8> shardings;  // one per name
    AxisSet used = 0;
    const auto* attention = instruction.Find<AttentionAttributes>();
    const std::string* keys = attention != nullptr && attention->ring
                                  ? &attention->spec.memory_length
                                  : nullptr;
    const auto add = [&](const Shape& shape,
                         const TensorLayout& layout) -> absl::Status {
      for (int i = 0; i < shape.rank(); ++i) {
        const std::string& name = shape[i].name;
        const AxisList& axes = layout.dims[i];
        const auto known = std::find_if(
            shardings.begin(), shardings.end(),
            [&](const Sharding& each) { return *each.name == name; });
        if (known != shardings.end()) {
          if (*known->axes == axes) continue;
          return BadDimension(name, "is sharded in two ways");
        }
        const bool shares_axes = keys != nullptr && name == *keys;
        if (!shares_axes && (used & SetOf(axes)) != 0) {
          for (const Sharding& other : shardings) {
            if ((SetOf(*other.axes) & SetOf(axes)) == 0 ||
                (keys != nullptr && *other.name == *keys)) {
              continue;
            }
            return Bad(absl::StrCat("dimensions \"", *other.name, "\" and \"",
                                    name, "\" are sharded over one mesh axis"));
          }
        }
        if (!shares_axes) used |= SetOf(axes);
        shardings.push_back({&name, &axes});
      }
      return absl::OkStatus();
    };
    for (int id : instruction.operands) {
      MTF_RETURN_IF_ERROR(
          add(program_.values[id].shape, program_.values[id].layout));
    }
    for (int id : instruction.results) {
      MTF_RETURN_IF_ERROR(
          add(program_.values[id].shape, program_.values[id].layout));
    }
    if (const auto* reduce = instruction.Find<ReduceAttributes>()) {
      return add(reduce->iteration, reduce->iteration_layout);
    }
    return absl::OkStatus();
  }

  // Only an instruction that is linear in an unreduced sum may read it, and
  // only the reduction an unreduced maximum or minimum.
  absl::Status CheckLinear(const Instruction& instruction) const {
    absl::InlinedVector<DType, 4> dtypes;
    AxisSet unreduced = 0;
    for (int id : instruction.operands) {
      const ProgramValue& value = program_.values[id];
      unreduced |= value.layout.unreduced;
      dtypes.push_back(value.dtype);
      if (value.layout.reduction != ReduceKind::kSum) {
        return Bad("an unreduced maximum or minimum is read");
      }
    }
    if (unreduced == 0) return absl::OkStatus();
    // All summands of a looked-up row but one are zero, so a cast of each is a
    // cast of the sum.
    const bool is_cast_of_lookup = instruction.operands.size() == 1 &&
                                   IsCast(instruction) &&
                                   looked_up_[instruction.operands[0]];
    return is_cast_of_lookup || IsLinear(instruction, dtypes)
               ? absl::OkStatus()
               : Bad("an unreduced sum is read by an instruction that is "
                     "not linear in it");
  }

  // The result is unreduced over the axes that its operands are unreduced over
  // and those that shard a dimension that the instruction sums over.
  absl::Status CheckUnreduced(const Instruction& instruction) const {
    MTF_RETURN_IF_ERROR(CheckLinear(instruction));
    AxisSet unreduced = 0;
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      const AxisSet mine =
          program_.values[instruction.operands[i]].layout.unreduced;
      if (i > 0 && mine != unreduced) {
        return Bad("operands are unreduced over different axes");
      }
      unreduced = mine;
    }
    const ProgramValue& result = program_.values[instruction.results[0]];
    AxisSet expected = unreduced;
    const auto sum_away = [&](const Shape& shape, const TensorLayout& layout) {
      for (int i = 0; i < shape.rank(); ++i) {
        if (!result.shape.Contains(shape[i].name)) {
          expected |= SetOf(layout.dims[i]);
        }
      }
    };
    switch (instruction.opcode) {
      case Opcode::kEinsum:
        for (int id : instruction.operands) {
          sum_away(program_.values[id].shape, program_.values[id].layout);
        }
        break;
      case Opcode::kReduce: {
        const auto& reduce = instruction.Get<ReduceAttributes>();
        sum_away(reduce.iteration, reduce.iteration_layout);
        break;
      }
      case Opcode::kGather:
      case Opcode::kDynamicSlice: {
        const ProgramValue& table = operand(instruction, 0);
        expected |= SetOf(
            table.layout.dims[table.shape.Find(DimensionOf(instruction))]);
        break;
      }
      case Opcode::kScatterAdd:
        sum_away(operand(instruction, 0).shape, operand(instruction, 0).layout);
        break;
      default:
        break;
    }
    if (result.layout.unreduced != expected) {
      return Bad(
          "the result is unreduced over other axes than its operands imply");
    }
    if (expected != 0 &&
        result.layout.reduction != (instruction.opcode == Opcode::kReduce
                                        ? ReductionOf(instruction)
                                        : ReduceKind::kSum)) {
      return Bad("the result is unreduced with another kind of reduction");
    }
    return absl::OkStatus();
  }

  // A dynamic_slice or update_slice shards the dimension of the rows in the
  // value alone. All others are sharded alike.
  absl::Status CheckDynamicSlice(const Instruction& instruction) const {
    const ProgramValue& value = operand(instruction, 0);
    const std::string& dimension = DimensionOf(instruction);
    const bool updates = instruction.opcode == Opcode::kUpdateSlice;
    const ProgramValue& result = program_.values[instruction.results[0]];
    if (updates && !(result.layout.dims == value.layout.dims)) {
      return Bad("the layout of the updated value changes");
    }
    const ProgramValue& index = program_.values[instruction.operands.back()];
    for (const ProgramValue* other :
         {updates ? &operand(instruction, 1) : &result, &index}) {
      for (int i = 0; i < other->shape.rank(); ++i) {
        const std::string& name = other->shape[i].name;
        const int there = name == dimension ? -1 : value.shape.Find(name);
        const AxisList& axes = other->layout.dims[i];
        if (there < 0 && !axes.empty()) {
          return BadDimension(name, "is sharded but must not be");
        }
        if (there >= 0 && !(axes == value.layout.dims[there])) {
          return BadDimension(name, "is sharded in two ways");
        }
      }
    }
    return absl::OkStatus();
  }

  // slice, pad and concat need their dimension unsharded.
  absl::Status CheckUnsharded(const Instruction& instruction) const {
    const auto is_unsharded = [&](int id) {
      const ProgramValue& value = program_.values[id];
      return value.layout.dims[value.shape.Find(DimensionOf(instruction))]
          .empty();
    };
    bool good = is_unsharded(instruction.results[0]);
    for (int id : instruction.operands) good = good && is_unsharded(id);
    return good ? absl::OkStatus() : ShardedDimension(instruction);
  }
  static absl::Status ShardedDimension(const Instruction& instruction) {
    return BadDimension(DimensionOf(instruction), "is sharded but must not be");
  }

  // A collective changes the layout as its attributes state.
  absl::Status CheckCollective(const Instruction& instruction) const {
    const auto& collective = instruction.Get<CollectiveAttributes>();
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      const ProgramValue& from = program_.values[instruction.operands[i]];
      const ProgramValue& to = program_.values[instruction.results[i]];
      TensorLayout expected = from.layout;
      const AxisSet axes = SetOf(collective.axes);
      const auto drop_suffix = [&](int dim) {
        for (int k = collective.axes.size() - 1; k >= 0; --k) {
          AxisList& list = expected.dims[dim];
          if (list.empty() || list.back() != collective.axes[k]) return false;
          list.pop_back();
        }
        return true;
      };
      // An axis that the layout uses already cannot shard another dimension.
      const auto append = [&](int dim) {
        if (((expected.Sharded() | expected.unreduced) & axes) != 0) {
          return false;
        }
        expected.dims[dim].Append(collective.axes);
        return true;
      };
      if (collective.ReordersShards()) {
        MTF_RETURN_IF_ERROR(CheckReorder(collective, from, to));
        continue;
      }
      bool legal = true;
      switch (instruction.opcode) {
        case Opcode::kAllReduce:
        case Opcode::kReduceScatter:
          if ((from.layout.unreduced & axes) != axes) {
            return Bad(absl::StrCat(
                OpcodeName(instruction.opcode),
                " over an axis that the operand is not unreduced over"));
          }
          if (from.layout.reduction != collective.reduction) {
            return Bad(
                "the operand is unreduced with another kind of reduction");
          }
          expected.unreduced &= ~axes;
          if (instruction.opcode == Opcode::kReduceScatter) {
            const int dim =
                program_.ScatteredDim(instruction, static_cast<int>(i));
            if (dim < 0 || (i == 0 && dim != collective.dim)) {
              return Bad(
                  "the result's layout is not the one that the collective "
                  "produces");
            }
            legal = append(dim);
          }
          break;
        case Opcode::kAllGather:
          if (!drop_suffix(collective.dim)) {
            return Bad(
                "all_gather over axes that are not the last of the dimension");
          }
          break;
        case Opcode::kAllSlice:
          legal = append(collective.dim);
          break;
        case Opcode::kAllToAll:
          if (!drop_suffix(collective.from_dim)) {
            return Bad(
                "all_to_all over axes that are not the last of the dimension");
          }
          legal = append(collective.dim);
          break;
        default:  // collective_permute
          for (int d = 0; d < from.shape.rank(); ++d) {
            if (program_.mesh.SizeOf(from.layout.dims[d]) !=
                program_.mesh.SizeOf(to.layout.dims[d])) {
              return Bad("collective_permute changes the number of shards");
            }
          }
          expected.dims = to.layout.dims;
          break;
      }
      if (expected.unreduced == 0) expected.reduction = ReduceKind::kSum;
      if (!legal || !(expected == to.layout)) {
        return Bad(
            "the result's layout is not the one that the collective produces");
      }
    }
    return absl::OkStatus();
  }

  static bool IsPermutation(const std::vector<int64_t>& sources,
                            int64_t ranks) {
    std::vector<int64_t> sorted = sources;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size(); ++i) {
      if (sorted[i] != static_cast<int64_t>(i)) return false;
    }
    return static_cast<int64_t>(sorted.size()) == ranks;
  }

  // A collective that moves elements to other indices keeps the layout, in
  // which its axes shard one dimension.
  absl::Status CheckReorder(const CollectiveAttributes& collective,
                            const ProgramValue& from,
                            const ProgramValue& to) const {
    if (!(from.layout == to.layout)) {
      return Bad(
          "the result's layout is not the one that the collective produces");
    }
    const int64_t ranks = program_.mesh.SizeOf(collective.axes);
    const auto dim = std::find(from.layout.dims.begin(), from.layout.dims.end(),
                               collective.axes);
    if (dim == from.layout.dims.end()) {
      return Bad("the axes of the collective are not those of a dimension");
    }
    if (!collective.sources.empty()) {
      return IsPermutation(collective.sources, ranks)
                 ? absl::OkStatus()
                 : Bad("the ranks to receive from are not a permutation");
    }
    if (collective.stripes == CollectiveAttributes::Stripes::kNone) {
      return collective.shift < ranks
                 ? absl::OkStatus()
                 : Bad("the shift is not less than the number of ranks");
    }
    if (dim - from.layout.dims.begin() != collective.dim) {
      return Bad("the axes of the collective shard another dimension");
    }
    return LocalExtent(program_.grains, from.shape, from.layout,
                       collective.dim) %
                       ranks ==
                   0
               ? absl::OkStatus()
               : Bad("a shard does not divide into one stripe per rank");
  }

  const Program& program_;
  const std::vector<bool>& looked_up_;
};

}  // namespace

absl::Status VerifyLayouts(const Program& program,
                           const Instruction& instruction,
                           const std::vector<bool>& looked_up) {
  return LayoutVerifier(program, looked_up).Check(instruction);
}

}  // namespace mtf::internal
