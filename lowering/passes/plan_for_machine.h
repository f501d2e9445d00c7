// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_PLAN_FOR_MACHINE_H_
#define LOWERING_PASSES_PLAN_FOR_MACHINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lowering/fusion/attention_group.h"
#include "lowering/fusion/fusion_capabilities.h"
#include "lowering/passes/plan_buffers.h"
#include "lowering/program/program.h"

namespace mtf {

// The fused groups that a plan of memory assumes.
struct MachinePlan {
  std::vector<AttentionGroup> attention;
  std::vector<FusedGroup> groups;  // FindFusedGroups(program, attention)
};

// Replaces the memory plan of a lowered program (all passes run) with the plan
// of a device with `capabilities`: if it fuses attention, then values internal
// to attention, to a row group (row_groups.h) and to the gradient of a GELU
// (matmul_groups.h) have no memory. Everything that reports memory or time of a
// program follows its plan (MeasureBudget, EstimateStep, the explanation), so
// this call comes first:
//
//   MTF_ASSIGN_OR_RETURN(Program program, Lower(graph, binding, targets));
//   PlanForMachine(machine.fusion(), program);
//   EstimateStep(program, machine).seconds;   // of the fused kernels
//   program.buffers.arena_bytes;              // and of the same plan
//
// The plan equals that of the CUDA device, to the byte, if its libraries accept
// what CheckFusedAttention accepts. A program keeps its plan if the machine
// does not fuse attention, and stays without a plan if it has none. Takes
// linear time. Thread-safe for different programs.
MachinePlan PlanForMachine(const FusionCapabilities& capabilities,
                           Program& program);

// The same instead of plan_buffers, for callers that stop lowering at the pass
// before it (LowerOptions::last_pass) to avoid planning memory twice.
MachinePlan PlanMemory(const FusionCapabilities& capabilities,
                       Program& program);

// The groups that affect the memory plan of a device that fuses attention:
// `attention`; GELU gradients fused into a matmul (matmul_groups.h); row groups
// of the remaining instructions; and remaining bias gradients
// (bias_gradients.h). Other groups do not change the plan.
std::vector<FusedGroup> FindFusedGroups(
    const Program& program, const std::vector<AttentionGroup>& attention);

// The groups that the plan of `program` assumes; empty if it assumes none.
MachinePlan PlanOf(const Program& program);

// The bytes of the arena if such a device did not fuse attention.
int64_t ArenaWithComposedAttention(const Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_PLAN_FOR_MACHINE_H_
