// SPDX-License-Identifier: Apache-2.0
#include "lowering/verify/verify_program.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "layouts/shard.h"
#include "lowering/program/print_program.h"
#include "lowering/verify/verify_buffers.h"
#include "lowering/verify/verify_causes.h"
#include "lowering/verify/verify_expressions.h"
#include "lowering/verify/verify_groups.h"
#include "lowering/verify/verify_layouts.h"
#include "lowering/verify/verify_overlap.h"
#include "lowering/verify/verify_rings.h"
#include "lowering/verify/verify_rows.h"
#include "lowering/verify/verify_shapes.h"

namespace mtf {
namespace {

using internal::Bad;

class ProgramVerifier {
 public:
  explicit ProgramVerifier(const Program& program) : program_(program) {}

  absl::Status Run(int* bad) {
    defined_.resize(program_.values.size(), false);
    looked_up_.resize(program_.values.size(), false);
    for (const ProgramVariable& variable : program_.variables) {
      if (!variables_.emplace(variable.name, &variable).second) {
        return Bad(
            absl::StrCat("variable ", variable.name, " is listed twice"));
      }
    }
    names_.reserve(program_.values.size());
    for (const Instruction& instruction : program_.instructions) {
      if (!HasValues(instruction)) {
        return Bad("an instruction refers to a value that does not exist");
      }
      const absl::Status status = Check(instruction);
      if (status.ok()) continue;
      *bad = static_cast<int>(&instruction - program_.instructions.data());
      return In(instruction, status);
    }
    // These depend on the program as a whole.
    for (const auto verify :
         {internal::VerifyRings, internal::VerifyRows, internal::VerifyOverlap,
          internal::VerifyGroups, internal::VerifyBuffers}) {
      const absl::Status status = verify(program_, bad);
      if (status.ok()) continue;
      return *bad < 0 ? status : In(program_.instructions[*bad], status);
    }
    *bad = kBadProgram;
    return absl::OkStatus();
  }

 private:
  absl::Status In(const Instruction& instruction,
                  const absl::Status& status) const {
    std::string text = absl::StrCat(status.message(), "\n  in       ",
                                    PrintInstruction(program_, instruction));
    if (instruction.origin >= 0) {
      absl::StrAppend(&text, "\n  made at  ", program_.OriginText(instruction));
    }
    return absl::InternalError(text);
  }

  bool HasValues(const Instruction& instruction) const {
    const auto exists = [&](int id) {
      return id >= 0 && id < static_cast<int>(program_.values.size());
    };
    return std::all_of(instruction.operands.begin(), instruction.operands.end(),
                       exists) &&
           std::all_of(instruction.results.begin(), instruction.results.end(),
                       exists);
  }

  // A value that is read from or written to a variable has its type and layout.
  absl::Status CheckVariable(const Instruction& instruction) const {
    const auto found = variables_.find(instruction.Get<NameAttributes>().name);
    if (found == variables_.end()) return Bad("there is no such variable");
    const ProgramVariable& variable = *found->second;
    const ProgramValue& value = program_.values[instruction.results[0]];
    if (value.dtype != variable.dtype || !(value.shape == variable.shape) ||
        !(value.layout == variable.layout)) {
      return Bad("the value's type or layout differs from the variable's");
    }
    for (int id : instruction.operands) {
      if (!(program_.values[id].layout == variable.layout)) {
        return Bad("the value's type or layout differs from the variable's");
      }
    }
    return absl::OkStatus();
  }

  // Each input, output and variable is fed, returned or written once.
  absl::Status CheckOnce(const Instruction& instruction) {
    absl::string_view how;
    switch (instruction.opcode) {
      case Opcode::kInput:
        how = "fed";
        break;
      case Opcode::kOutput:
        how = "returned";
        break;
      case Opcode::kWriteVariable:
        how = "written";
        break;
      default:
        return absl::OkStatus();
    }
    const std::string& name = instruction.Get<NameAttributes>().name;
    if (named_.insert({instruction.opcode, name}).second) {
      return absl::OkStatus();
    }
    return Bad(absl::StrCat(instruction.opcode == Opcode::kWriteVariable
                                ? "variable"
                                : OpcodeName(instruction.opcode),
                            " \"", name, "\" is ", how, " twice"));
  }

  // After shard_shapes every value has the local extents of its layout.
  absl::Status CheckExtents(
      const Shape& shape, const TensorLayout& layout,
      const absl::InlinedVector<int64_t, 5>& extents) const {
    if (extents.empty()) return absl::OkStatus();
    if (static_cast<int>(extents.size()) != shape.rank()) {
      return Bad("there is not one extent per dimension");
    }
    int64_t elements = 1;
    for (int i = 0; i < shape.rank(); ++i) {
      if (extents[i] != LocalExtent(program_.grains, shape, layout, i)) {
        return Bad(absl::StrCat(
            "dimension \"", shape[i].name, "\" has extent ", extents[i],
            ", not ", LocalExtent(program_.grains, shape, layout, i)));
      }
      if (extents[i] > 0 && elements > kMaxLocalElements / extents[i]) {
        return Bad(absl::StrCat("[", shape.ToString(), "] takes more than ",
                                kMaxLocalElements,
                                " elements on every device"));
      }
      elements *= extents[i];
    }
    return absl::OkStatus();
  }

  absl::Status Check(const Instruction& instruction) {
    for (int id : instruction.operands) {
      if (!defined_[id]) return Bad("an operand is read before it is defined");
    }
    for (int id : instruction.results) {
      if (defined_[id]) return Bad("a value is defined twice");
      defined_[id] = true;
      looked_up_[id] = LooksUpRows(instruction.opcode);
      const ProgramValue& value = program_.values[id];
      if (!names_.insert(value.name).second) {
        return Bad("the name of a result is taken");
      }
      if (static_cast<int>(value.layout.dims.size()) != value.shape.rank() ||
          !value.layout.IsLegal() ||
          (value.layout.unreduced == 0 &&
           value.layout.reduction != ReduceKind::kSum)) {
        return Bad("the layout of the result is not legal");
      }
      MTF_RETURN_IF_ERROR(CheckExtents(value.shape, value.layout, value.local));
    }
    const auto* reduce = instruction.Find<ReduceAttributes>();
    if (reduce != nullptr &&
        static_cast<int>(reduce->iteration_layout.dims.size()) !=
            reduce->iteration.rank()) {
      return Bad("the layout of the iteration is not legal");
    }
    MTF_RETURN_IF_ERROR(internal::VerifyShapes(program_, instruction));
    if (reduce != nullptr) {
      MTF_RETURN_IF_ERROR(CheckExtents(reduce->iteration,
                                       reduce->iteration_layout,
                                       reduce->iteration_local));
    }
    if (instruction.opcode == Opcode::kReadVariable ||
        instruction.opcode == Opcode::kWriteVariable) {
      MTF_RETURN_IF_ERROR(CheckVariable(instruction));
    }
    MTF_RETURN_IF_ERROR(
        internal::VerifyLayouts(program_, instruction, looked_up_));
    MTF_RETURN_IF_ERROR(CheckOnce(instruction));
    return internal::VerifyCauses(program_, instruction);
  }

  const Program& program_;
  std::vector<bool> defined_;
  std::vector<bool> looked_up_;  // by value: produced by a gather
  absl::flat_hash_set<absl::string_view> names_;
  // Inputs, outputs and writes so far.
  absl::flat_hash_set<std::pair<Opcode, absl::string_view>> named_;
  absl::flat_hash_map<absl::string_view, const ProgramVariable*> variables_;
};

}  // namespace

absl::Status VerifyProgram(const Program& program, int* bad) {
  int index = kBadProgram;
  const absl::Status status = ProgramVerifier(program).Run(&index);
  if (bad != nullptr) *bad = index;
  return status;
}

}  // namespace mtf
