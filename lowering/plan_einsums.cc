// SPDX-License-Identifier: Apache-2.0
#include "lowering/plan_einsums.h"

#include <vector>

namespace mtf {
namespace {

std::vector<StridedDimension> InMemory(const ProgramValue& value) {
  std::vector<StridedDimension> dims(value.shape.rank());
  int64_t stride = 1;
  for (int i = value.shape.rank() - 1; i >= 0; --i) {
    dims[i] = {value.shape[i].name, value.local[i], stride};
    stride *= value.local[i];
  }
  return dims;
}

}  // namespace

absl::Status PlanEinsums(Program& program) {
  for (Instruction& instruction : program.instructions) {
    if (instruction.opcode != Opcode::kEinsum) continue;
    instruction.einsum =
        PlanEinsum(InMemory(program.values[instruction.operands[0]]),
                   InMemory(program.values[instruction.operands[1]]),
                   InMemory(program.values[instruction.results[0]]));
  }
  return absl::OkStatus();
}

}  // namespace mtf
