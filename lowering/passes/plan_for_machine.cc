// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/plan_for_machine.h"

#include <algorithm>
#include <utility>

#include "lowering/fusion/bias_gradients.h"
#include "lowering/fusion/matmul_groups.h"
#include "lowering/fusion/row_groups.h"
#include "lowering/program/is_no_op.h"

namespace mtf {

namespace {

bool HasMemory(const Program& program, int value) {
  return program.buffers.buffers[value].storage != BufferPlan::Storage::kNone;
}

}  // namespace

FusedGroups FindFusedGroups(const Program& program) {
  FusedGroups groups;
  std::vector<bool> is_grouped(program.instructions.size(), false);
  const std::vector<MatmulGroup> matmuls =
      FindMatmulGroups(program, is_grouped);
  for (const MatmulGroup& matmul : matmuls) {
    for (int member : matmul.members) is_grouped[member] = true;
  }
  for (FusedGroup& gradient : FusedMatmuls(matmuls)) {
    groups.push_back(std::move(gradient));
  }
  for (FusedGroup& rows :
       FusedRows(program, FindRowGroups(program, is_grouped))) {
    for (int member : rows.members) is_grouped[member] = true;
    groups.push_back(std::move(rows));
  }
  for (FusedGroup& bias :
       FusedBiasGradients(program, FindBiasGradients(program, is_grouped))) {
    groups.push_back(std::move(bias));
  }
  return groups;
}

FusedGroups PlanForMachine(const FusionCapabilities& capabilities,
                           Program& program) {
  const bool planned = program.buffers.buffers.size() == program.values.size();
  if (!capabilities.groups || !planned) return {};
  return PlanMemory(capabilities, program);
}

FusedGroups PlanMemory(const FusionCapabilities& capabilities,
                       Program& program) {
  FusedGroups groups;
  if (capabilities.groups) groups = FindFusedGroups(program);
  program.buffers = PlanBuffersOf(program, groups);
  return groups;
}

FusedGroups PlannedGroups(const Program& program) {
  if (program.buffers.buffers.size() != program.values.size()) return {};
  // A plan without fusion has memory for every computed value.
  const auto& all = program.instructions;
  const bool fuses =
      std::any_of(all.begin(), all.end(), [&](const Instruction& instruction) {
        return !IsNoOp(program, instruction) &&
               std::any_of(
                   instruction.results.begin(), instruction.results.end(),
                   [&](int result) { return !HasMemory(program, result); });
      });
  return fuses ? FindFusedGroups(program) : FusedGroups();
}

}  // namespace mtf
