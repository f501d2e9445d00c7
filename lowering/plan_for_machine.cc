// SPDX-License-Identifier: Apache-2.0
#include "lowering/plan_for_machine.h"

#include <algorithm>
#include <utility>

#include "lowering/bias_gradients.h"
#include "lowering/find_attention.h"
#include "lowering/lower.h"
#include "lowering/matmul_groups.h"
#include "lowering/row_groups.h"
#include "lowering/runs_nothing.h"

namespace mtf {

std::vector<FusedGroup> GroupsInMemory(
    const Program& program, const std::vector<AttentionGroup>& attention) {
  std::vector<FusedGroup> groups = FusedGroupsOf(attention);
  std::vector<bool> taken(program.instructions.size(), false);
  for (const FusedGroup& group : groups) {
    for (int member : group.members) taken[member] = true;
  }
  const std::vector<MatmulGroup> matmuls = FindMatmulGroups(program, taken);
  for (const MatmulGroup& matmul : matmuls) {
    for (int member : matmul.members) taken[member] = true;
  }
  for (FusedGroup& gradient : FusedMatmuls(matmuls)) {
    groups.push_back(std::move(gradient));
  }
  for (FusedGroup& rows : FusedRows(program, FindRowGroups(program, taken))) {
    for (int member : rows.members) taken[member] = true;
    groups.push_back(std::move(rows));
  }
  for (FusedGroup& bias :
       FusedBiasGradients(program, FindBiasGradients(program, taken))) {
    groups.push_back(std::move(bias));
  }
  return groups;
}

MachinePlan PlanForMachine(const Machine& machine, Program& program) {
  const bool planned = program.buffers.buffers.size() == program.values.size();
  if (!machine.fuses_attention() || !planned) return {};
  return PlanMemory(machine, program);
}

MachinePlan PlanMemory(const Machine& machine, Program& program) {
  MachinePlan plan;
  if (!machine.fuses_attention()) {
    program.buffers = PlanBuffersOf(program, {});
    return plan;
  }
  plan.attention = FindAttention(program);
  plan.groups = GroupsInMemory(program, plan.attention);
  program.buffers = PlanBuffersOf(program, plan.groups);
  return plan;
}

std::string PassBeforePlan() {
  const std::vector<std::string> passes = PassNames();
  return *(std::find(passes.begin(), passes.end(), "plan_buffers") - 1);
}

int64_t ArenaWithComposedAttention(const Program& program) {
  return PlanBuffersOf(program, GroupsInMemory(program, {})).arena_bytes;
}

MachinePlan PlanOf(const Program& program) {
  // A plan of the program itself has memory for everything that is computed.
  const auto& all = program.instructions;
  const bool fuses =
      std::any_of(all.begin(), all.end(), [&](const Instruction& instruction) {
        return !RunsNothing(program, instruction) &&
               std::any_of(instruction.results.begin(),
                           instruction.results.end(), [&](int result) {
                             return IsInsideOfKernel(program, result);
                           });
      });
  if (!fuses) return {};
  MachinePlan plan;
  plan.attention = FindPlannedAttention(program);
  plan.groups = GroupsInMemory(program, plan.attention);
  return plan;
}

}  // namespace mtf
