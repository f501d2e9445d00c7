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

// What runs as one kernel in a planned program, and how that is in memory.
struct MachinePlan {
  std::vector<AttentionGroup> attention;
  std::vector<FusedGroup> groups;  // GroupsInMemory of it
};

// Plans the memory of a lowered program (all passes run) as the devices of
// `machine` have it, in place of the plan of the program itself: where a
// machine fuses attention, what is made and read inside of it, of a group of
// rows (row_groups.h) or of the gradient of a gelu (matmul_groups.h) has no
// memory. Everything that tells memory or time of a
// program goes by its plan (MeasureBudget, EstimateStep, the explanation), so
// this comes first:
//
//   MTF_ASSIGN_OR_RETURN(Program program, Lower(graph, binding, targets));
//   PlanForMachine(machine, program);
//   EstimateStep(program, machine).seconds;   // of the same kernels
//   program.buffers.arena_bytes;              // and the same memory
//
// The plan is that of the CUDA device, to the byte, where its libraries take
// what CheckFusedAttention takes. On a machine that does not fuse attention the
// program keeps its plan, and one that has none yet gets none. Takes time in
// proportion to the program; calls for different programs may run at once.
MachinePlan PlanForMachine(const FusionCapabilities& capabilities,
                           Program& program);

// The same in place of plan_buffers, for who lowers up to the pass before it
// (LowerOptions::last_pass): to plan memory twice takes time for nothing.
MachinePlan PlanMemory(const FusionCapabilities& capabilities,
                       Program& program);

// The groups of a device that fuses, as it plans memory for them: `attention`,
// gradients of gelus that a matmul takes (matmul_groups.h), the rows that
// neither takes, and gradients of biases that are left (bias_gradients.h).
// Other groups have no plan of their own.
std::vector<FusedGroup> GroupsInMemory(
    const Program& program, const std::vector<AttentionGroup>& attention);

// What the plan of `program` was made for: nothing where it is the program's
// own.
MachinePlan PlanOf(const Program& program);

// What the arena would take if such devices ran attention by its parts.
int64_t ArenaWithComposedAttention(const Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_PLAN_FOR_MACHINE_H_
