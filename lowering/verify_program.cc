// SPDX-License-Identifier: Apache-2.0
#include "lowering/verify_program.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "lowering/print_program.h"

namespace mtf {
namespace {

class Verifier {
 public:
  explicit Verifier(const Program& program) : program_(program) {}

  absl::Status Run() {
    defined_.resize(program_.values.size(), false);
    absl::flat_hash_set<absl::string_view> names;
    for (const Instruction& instruction : program_.instructions) {
      absl::Status status = Check(instruction);
      for (int result : instruction.results) {
        if (!names.insert(program_.values[result].name).second) {
          status = absl::InternalError("the name of a result is taken");
        }
      }
      if (!status.ok()) {
        return absl::InternalError(absl::StrCat(
            status.message(), "\n  in       ",
            PrintInstruction(program_, instruction), "\n  made at  ",
            program_.OriginText(instruction)));
      }
    }
    return absl::OkStatus();
  }

 private:
  const ProgramValue& operand(const Instruction& instruction, int i) const {
    return program_.values[instruction.operands[i]];
  }

  static absl::Status Bad(absl::string_view what) {
    return absl::InternalError(what);
  }

  // Cuts of equal names are equal; the union uses every axis once.
  absl::Status CheckUnion(const Instruction& instruction) const {
    struct Cut {
      absl::string_view name;
      const AxisList* axes;
    };
    absl::InlinedVector<Cut, 8> cuts;
    const auto add = [&](const Shape& shape,
                         const TensorLayout& layout) -> absl::Status {
      for (int i = 0; i < shape.rank(); ++i) {
        for (const Cut& cut : cuts) {
          if (cut.name == shape[i].name) {
            if (*cut.axes != layout.dims[i]) {
              return Bad(absl::StrCat("dimension \"", shape[i].name,
                                      "\" is cut in two ways"));
            }
          } else if ((SetOf(*cut.axes) & SetOf(layout.dims[i])) != 0) {
            return Bad(absl::StrCat("dimensions \"", cut.name, "\" and \"",
                                    shape[i].name,
                                    "\" are cut over one mesh axis"));
          }
        }
        cuts.push_back({shape[i].name, &layout.dims[i]});
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
    return absl::OkStatus();
  }

  // The axes over which an instruction leaves its result unreduced: those that
  // cut what it sums away, and those its operands are pending over.
  absl::Status CheckUnreduced(const Instruction& instruction) const {
    AxisSet pending = 0;
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      const AxisSet mine = program_.values[instruction.operands[i]]
                               .layout.unreduced;
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
      case Opcode::kReduce:
        sum_away(instruction.iteration, instruction.iteration_layout);
        break;
      case Opcode::kGather: {
        const ProgramValue& table = operand(instruction, 0);
        expected |=
            SetOf(table.layout.dims[table.shape.Find(instruction.dimension)]);
        break;
      }
      case Opcode::kScatterAdd:
        sum_away(operand(instruction, 0).shape, operand(instruction, 0).layout);
        break;
      default:
        break;
    }
    if (result.layout.unreduced != expected) {
      return Bad("the result is pending over other axes than its operands "
                 "leave it");
    }
    return absl::OkStatus();
  }

  // A step of a reshard changes the layout as its attributes say.
  absl::Status CheckCollective(const Instruction& instruction) const {
    if (instruction.operands.size() != instruction.results.size()) {
      return Bad("a collective gives one result per operand");
    }
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      const ProgramValue& from = program_.values[instruction.operands[i]];
      const ProgramValue& to = program_.values[instruction.results[i]];
      if (from.dtype != to.dtype || !(from.shape == to.shape)) {
        return Bad("a collective keeps dtype and shape");
      }
      TensorLayout expected = from.layout;
      const AxisSet axes = SetOf(instruction.axes);
      const auto drop_suffix = [&](int dim) {
        for (int k = instruction.axes.size() - 1; k >= 0; --k) {
          AxisList& list = expected.dims[dim];
          if (list.empty() || list.back() != instruction.axes[k]) return false;
          list.pop_back();
        }
        return true;
      };
      switch (instruction.opcode) {
        case Opcode::kAllReduce:
          if ((from.layout.unreduced & axes) != axes) {
            return Bad("all_reduce over an axis that nothing is pending over");
          }
          expected.unreduced &= ~axes;
          break;
        case Opcode::kReduceScatter:
          if ((from.layout.unreduced & axes) != axes) {
            return Bad(
                "reduce_scatter over an axis that nothing is pending over");
          }
          expected.unreduced &= ~axes;
          expected.dims[instruction.dim].Append(instruction.axes);
          break;
        case Opcode::kAllGather:
          if (!drop_suffix(instruction.dim)) {
            return Bad("all_gather of axes that do not end the dimension's");
          }
          break;
        case Opcode::kAllSlice:
          expected.dims[instruction.dim].Append(instruction.axes);
          break;
        case Opcode::kAllToAll:
          if (!drop_suffix(instruction.from_dim)) {
            return Bad("all_to_all of axes that do not end the dimension's");
          }
          expected.dims[instruction.dim].Append(instruction.axes);
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
      if (!(expected == to.layout)) {
        return Bad("the result's layout is not what the collective gives");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckTypes(const Instruction& instruction) const {
    const auto same_dtype = [&]() {
      for (int id : instruction.operands) {
        if (program_.values[id].dtype !=
            program_.values[instruction.results[0]].dtype) {
          return false;
        }
      }
      return true;
    };
    switch (instruction.opcode) {
      case Opcode::kMap:
      case Opcode::kReduce: {
        const ProgramValue& result = program_.values[instruction.results[0]];
        if (instruction.expression.num_operands !=
                static_cast<int>(instruction.operands.size()) ||
            instruction.expression.steps.empty() ||
            instruction.expression.result_dtype() != result.dtype) {
          return Bad("the expression does not fit operands and result");
        }
        const Shape& space = instruction.opcode == Opcode::kMap
                                 ? result.shape
                                 : instruction.iteration;
        for (int id : instruction.operands) {
          for (const Dimension& dim : program_.values[id].shape) {
            const int at = space.Find(dim.name);
            if (at < 0 || space[at].size != dim.size) {
              return Bad(absl::StrCat("dimension \"", dim.name,
                                      "\" of an operand is not the result's"));
            }
          }
        }
        break;
      }
      case Opcode::kEinsum:
        if (instruction.operands.size() != 2 || !same_dtype()) {
          return Bad("an einsum takes two operands of the result's dtype");
        }
        break;
      case Opcode::kReshape:
        if (operand(instruction, 0).shape.num_elements() !=
            program_.values[instruction.results[0]].shape.num_elements()) {
          return Bad("a reshape keeps the number of elements");
        }
        [[fallthrough]];
      case Opcode::kSlice:
      case Opcode::kPad:
      case Opcode::kConcat:
      case Opcode::kMask:
      case Opcode::kWriteVariable:
        if (!same_dtype()) return Bad("the dtype changes");
        break;
      default:
        break;
    }
    return absl::OkStatus();
  }

  absl::Status Check(const Instruction& instruction) {
    for (int id : instruction.operands) {
      if (id < 0 || id >= static_cast<int>(program_.values.size()) ||
          !defined_[id]) {
        return Bad("an operand is read before it is made");
      }
    }
    for (int id : instruction.results) {
      if (defined_[id]) return Bad("a value is made twice");
      defined_[id] = true;
      const ProgramValue& value = program_.values[id];
      if (static_cast<int>(value.layout.dims.size()) != value.shape.rank() ||
          !value.layout.IsLegal()) {
        return Bad("the layout of the result is not legal");
      }
    }
    if (instruction.opcode == Opcode::kOutput) return absl::OkStatus();
    if (instruction.results.empty()) return Bad("there is no result");
    MTF_RETURN_IF_ERROR(CheckTypes(instruction));
    if (IsCollective(instruction.opcode)) return CheckCollective(instruction);
    switch (instruction.opcode) {
      case Opcode::kReshard:
        if ((program_.values[instruction.results[0]].layout.unreduced &
             ~operand(instruction, 0).layout.unreduced) != 0) {
          return Bad("a reshard leaves nothing unreduced that was reduced");
        }
        return absl::OkStatus();
      case Opcode::kReshape:
      case Opcode::kSlice:
      case Opcode::kPad:
      case Opcode::kConcat:
      case Opcode::kMask:
        return CheckUnreduced(instruction);
      case Opcode::kMap:
      case Opcode::kEinsum:
      case Opcode::kReduce:
      case Opcode::kGather:
      case Opcode::kScatterAdd:
        MTF_RETURN_IF_ERROR(CheckUnion(instruction));
        return CheckUnreduced(instruction);
      default:
        return absl::OkStatus();
    }
  }

  const Program& program_;
  std::vector<bool> defined_;
};

}  // namespace

absl::Status VerifyProgram(const Program& program) {
  return Verifier(program).Run();
}

}  // namespace mtf
