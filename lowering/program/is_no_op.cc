// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/is_no_op.h"

#include "lowering/program/reshape_layout.h"

namespace mtf {
namespace {

bool HasPadding(const Program& program, const ProgramValue& value) {
  for (const Dimension& dim : value.shape) {
    if (program.grains.ExtentOf(dim) != dim.size) return true;
  }
  return false;
}

}  // namespace

bool IsFreeReshape(const Program& program, const Instruction& instruction) {
  if (instruction.opcode != Opcode::kReshape) return false;
  const ProgramValue& from = program.values[instruction.operands[0]];
  const ProgramValue& to = program.values[instruction.results[0]];
  // Without padding, both are the same elements in row-major order.
  return (!HasPadding(program, from) && !HasPadding(program, to)) ||
         IsRelabel(from, to);
}

bool IsView(const Program& program, const Instruction& instruction) {
  return InfoOf(instruction.opcode).may_be_view &&
         (instruction.opcode != Opcode::kReshape ||
          IsFreeReshape(program, instruction));
}

bool IsNoOp(const Program& program, const Instruction& instruction) {
  return ExistsBeforeStep(instruction.opcode) ||
         (IsView(program, instruction) &&
          instruction.opcode != Opcode::kDepend);
}

}  // namespace mtf
