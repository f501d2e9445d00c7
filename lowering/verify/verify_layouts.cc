// SPDX-License-Identifier: Apache-2.0
#include "lowering/verify/verify_layouts.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "lowering/program/linearity.h"

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
      case Opcode::kReadVariable:  // lie as the variable
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
        MTF_RETURN_IF_ERROR(CheckWhole(instruction));
        break;
      case Opcode::kScan:
      case Opcode::kTopK:
        // Blocks lie within shards; what spans all of a dimension has it whole.
        if (instruction.results.size() == 1 &&
            (instruction.operands.size() == 1 ||
             instruction.opcode == Opcode::kTopK)) {
          const ProgramValue& value = operand(instruction, 0);
          const int dim = value.shape.Find(DimensionOf(instruction));
          if (!value.layout.dims[dim].empty()) {
            return CutDimension(instruction);
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
  static absl::Status Bad(absl::string_view what) {
    return absl::InternalError(what);
  }

  absl::Status CheckReshard(const Instruction& instruction) const {
    const TensorLayout& from = operand(instruction, 0).layout;
    const TensorLayout& to = program_.values[instruction.results[0]].layout;
    if ((to.unreduced & ~from.unreduced) != 0) {
      return Bad("a reshard leaves nothing unreduced that was reduced");
    }
    if (to.unreduced != 0 && to.reduction != from.reduction) {
      return Bad("the result is pending by another kind of reduction");
    }
    return absl::OkStatus();
  }

  // Cuts of equal names are equal; the union uses every axis once.
  absl::Status CheckUnion(const Instruction& instruction) const {
    struct Cut {
      const std::string* name;
      const AxisList* axes;
    };
    absl::InlinedVector<Cut, 8> cuts;  // one per name
    AxisSet used = 0;
    const auto add = [&](const Shape& shape,
                         const TensorLayout& layout) -> absl::Status {
      for (int i = 0; i < shape.rank(); ++i) {
        const std::string& name = shape[i].name;
        const AxisList& axes = layout.dims[i];
        const auto known =
            std::find_if(cuts.begin(), cuts.end(),
                         [&](const Cut& cut) { return *cut.name == name; });
        if (known != cuts.end()) {
          if (*known->axes == axes) continue;
          return Bad(
              absl::StrCat("dimension \"", name, "\" is cut in two ways"));
        }
        if ((used & SetOf(axes)) != 0) {
          for (const Cut& cut : cuts) {
            if ((SetOf(*cut.axes) & SetOf(axes)) == 0) continue;
            return Bad(absl::StrCat("dimensions \"", *cut.name, "\" and \"",
                                    name, "\" are cut over one mesh axis"));
          }
        }
        used |= SetOf(axes);
        cuts.push_back({&name, &axes});
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

  // A sum that is pending may be read by what is linear in it; a pending
  // maximum by nothing but its reduction.
  absl::Status CheckLinear(const Instruction& instruction) const {
    absl::InlinedVector<DType, 4> dtypes;
    AxisSet pending = 0;
    for (int id : instruction.operands) {
      const ProgramValue& value = program_.values[id];
      pending |= value.layout.unreduced;
      dtypes.push_back(value.dtype);
      if (value.layout.reduction != ReduceKind::kSum) {
        return Bad("a pending maximum or minimum is read");
      }
    }
    if (pending == 0) return absl::OkStatus();
    bool linear = false;
    switch (instruction.opcode) {
      case Opcode::kMap:
        // Of the summands of rows that were looked up, all but one are zero.
        linear = IsLinear(ExpressionOf(instruction), dtypes) ||
                 (looked_up_[instruction.operands[0]] &&
                  instruction.operands.size() == 1 && IsCast(instruction));
        break;
      case Opcode::kReduce:
        linear = ReductionOf(instruction) == ReduceKind::kSum &&
                 IsLinear(ExpressionOf(instruction), dtypes);
        break;
      case Opcode::kReshape:
      case Opcode::kSlice:
      case Opcode::kConcat:
        linear = true;
        break;
      case Opcode::kPad:
      case Opcode::kMask:
        linear = FillOf(instruction) == 0;
        break;
      default:
        break;
    }
    return linear ? absl::OkStatus()
                  : Bad("a pending sum is read by what is not linear in it");
  }

  // The axes over which an instruction leaves its result unreduced: those that
  // cut what it sums away, and those its operands are pending over.
  absl::Status CheckUnreduced(const Instruction& instruction) const {
    MTF_RETURN_IF_ERROR(CheckLinear(instruction));
    AxisSet pending = 0;
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      const AxisSet mine =
          program_.values[instruction.operands[i]].layout.unreduced;
      if (i > 0 && mine != pending) {
        return Bad("operands are pending over different axes");
      }
      pending = mine;
    }
    const ProgramValue& result = program_.values[instruction.results[0]];
    AxisSet expected = pending;
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
      case Opcode::kGather: {
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
          "the result is pending over other axes than its operands "
          "leave it");
    }
    if (expected != 0 &&
        result.layout.reduction != (instruction.opcode == Opcode::kReduce
                                        ? ReductionOf(instruction)
                                        : ReduceKind::kSum)) {
      return Bad("the result is pending by another kind of reduction");
    }
    return absl::OkStatus();
  }

  // What moves along one dimension has all of it on every device.
  absl::Status CheckWhole(const Instruction& instruction) const {
    const auto whole = [&](int id) {
      const ProgramValue& value = program_.values[id];
      return value.layout.dims[value.shape.Find(DimensionOf(instruction))]
          .empty();
    };
    bool good = whole(instruction.results[0]);
    for (int id : instruction.operands) good = good && whole(id);
    return good ? absl::OkStatus() : CutDimension(instruction);
  }
  static absl::Status CutDimension(const Instruction& instruction) {
    return Bad(absl::StrCat("dimension \"", DimensionOf(instruction),
                            "\" is cut where it must be whole"));
  }

  // A step of a reshard changes the layout as its attributes say.
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
      // An axis that something uses cannot cut a dimension too.
      const auto append = [&](int dim) {
        if (((expected.Sharded() | expected.unreduced) & axes) != 0) {
          return false;
        }
        expected.dims[dim].Append(collective.axes);
        return true;
      };
      bool legal = true;
      switch (instruction.opcode) {
        case Opcode::kAllReduce:
        case Opcode::kReduceScatter:
          if ((from.layout.unreduced & axes) != axes) {
            return Bad(absl::StrCat(OpcodeName(instruction.opcode),
                                    " over an axis that nothing is pending "
                                    "over"));
          }
          if (from.layout.reduction != collective.reduction) {
            return Bad("the operand is pending by another kind of reduction");
          }
          expected.unreduced &= ~axes;
          if (instruction.opcode == Opcode::kReduceScatter) {
            const int dim =
                program_.ScatteredDim(instruction, static_cast<int>(i));
            if (dim < 0 || (i == 0 && dim != collective.dim)) {
              return Bad(
                  "the result's layout is not what the collective gives");
            }
            legal = append(dim);
          }
          break;
        case Opcode::kAllGather:
          if (!drop_suffix(collective.dim)) {
            return Bad("all_gather of axes that do not end the dimension's");
          }
          break;
        case Opcode::kAllSlice:
          legal = append(collective.dim);
          break;
        case Opcode::kAllToAll:
          if (!drop_suffix(collective.from_dim)) {
            return Bad("all_to_all of axes that do not end the dimension's");
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
        return Bad("the result's layout is not what the collective gives");
      }
    }
    return absl::OkStatus();
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
