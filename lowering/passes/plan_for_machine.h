// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_PLAN_FOR_MACHINE_H_
#define LOWERING_PASSES_PLAN_FOR_MACHINE_H_

#include "lowering/fusion/fused_group.h"
#include "lowering/fusion/fusion_capabilities.h"
#include "lowering/passes/plan_buffers.h"
#include "lowering/program/program.h"

namespace mtf {

// Replaces the memory plan of a lowered program (all passes run) with the plan
// of a device with `capabilities`: if it fuses groups, then values internal to
// a row group (row_groups.h) and to the gradient of a GELU (matmul_groups.h)
// have no memory. Returns the groups. Everything that reports memory or time of
// a program follows its plan (MeasureBudget, EstimateStep, the explanation), so
// this call comes first:
//
//   MTF_ASSIGN_OR_RETURN(Program program, Lower(graph, binding, targets));
//   PlanForMachine(machine.fusion(), program);
//   EstimateStep(program, machine).seconds;
//   program.buffers.arena_bytes;              // of the same plan
//
// The plan equals that of the CUDA device, to the byte. A program keeps its
// plan if the machine fuses no groups, and stays without a plan if it has none.
// Takes linear time. Thread-safe for different programs.
FusedGroups PlanForMachine(const FusionCapabilities& capabilities,
                           Program& program);

// The same instead of plan_buffers, for callers that stop lowering at the pass
// before it (LowerOptions::last_pass) to avoid planning memory twice.
FusedGroups PlanMemory(const FusionCapabilities& capabilities,
                       Program& program);

// The groups that affect the memory plan of a device that fuses: GELU gradients
// fused into a matmul (matmul_groups.h); row groups of the remaining
// instructions; and remaining bias gradients (bias_gradients.h). Other groups
// do not change the plan.
FusedGroups FindFusedGroups(const Program& program);

// The groups that the plan of `program` assumes; empty if it assumes none.
FusedGroups PlannedGroups(const Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_PLAN_FOR_MACHINE_H_
