// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/plan_for_machine.h"

#include <algorithm>
#include <utility>

#include "lowering/fusion/bias_gradients.h"
#include "lowering/fusion/find_attention.h"
#include "lowering/fusion/matmul_groups.h"
#include "lowering/fusion/row_groups.h"
#include "lowering/program/is_no_op.h"

namespace mtf {

std::vector<FusedGroup> FindFusedGroups(
    const Program& program, const std::vector<AttentionGroup>& attention) {
  std::vector<FusedGroup> groups = FusedGroupsOf(attention);
  std::vector<bool> is_grouped(program.instructions.size(), false);
  for (const FusedGroup& group : groups) {
    for (int member : group.members) is_grouped[member] = true;
  }
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

MachinePlan PlanForMachine(const FusionCapabilities& capabilities,
                           Program& program) {
  const bool planned = program.buffers.buffers.size() == program.values.size();
  if (!capabilities.attention || !planned) return {};
  return PlanMemory(capabilities, program);
}

MachinePlan PlanMemory(const FusionCapabilities& capabilities,
                       Program& program) {
  MachinePlan plan;
  if (!capabilities.attention) {
    program.buffers = PlanBuffersOf(program, {});
    return plan;
  }
  plan.attention = FindAttention(program);
  plan.groups = FindFusedGroups(program, plan.attention);
  program.buffers = PlanBuffersOf(program, plan.groups);
  return plan;
}

int64_t ArenaWithComposedAttention(const Program& program) {
  return PlanBuffersOf(program, FindFusedGroups(program, {})).arena_bytes;
}

MachinePlan PlanOf(const Program& program) {
  // A plan without fusion has memory for every computed value.
  const auto& all = program.instructions;
  const bool fuses =
      std::any_of(all.begin(), all.end(), [&](const Instruction& instruction) {
        return !IsNoOp(program, instruction) &&
               std::any_of(instruction.results.begin(),
                           instruction.results.end(), [&](int result) {
                             return IsInternalToKernel(program, result);
                           });
      });
  if (!fuses) return {};
  MachinePlan plan;
  plan.attention = FindPlannedAttention(program);
  plan.groups = FindFusedGroups(program, plan.attention);
  return plan;
}

}  // namespace mtf
