// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_COST_ESTIMATE_TIME_H_
#define PLANNING_COST_ESTIMATE_TIME_H_

#include <vector>

#include "lowering/fusion/attention_group.h"
#include "lowering/program/program.h"
#include "planning/machine/machine.h"

namespace mtf {

// One instruction on the clock of a rank, in seconds from the start of a step.
struct TimedInstruction {
  int instruction = -1;  // place in Program::instructions
  bool is_collective = false;
  double begin = 0;
  double end = 0;
  // The part of a collective during which nothing computes: it waits for it.
  double exposed = 0;
};

// When a step does what.
struct StepEstimate {
  double seconds = 0;      // of the whole step
  double compute = 0;      // sum over kernels
  double collectives = 0;  // sum over collectives
  double exposed = 0;      // the part of them that nothing hides
  std::vector<TimedInstruction> timeline;  // instructions that take time
  // Attention that runs as one kernel forward and one backward: the first
  // instruction of each takes the time of all.
  std::vector<AttentionGroup> attention;
};

// Estimates one step of a lowered program (all passes run) on `machine`. What
// is fused attention is what the plan of its memory says: PlanForMachine
// (plan_for_machine.h) before this makes it that of the machine.
// Compute runs in program order, and a collective when what stands before it
// has been computed and the collective before it is done. Where the machine
// overlaps, compute goes on beside a collective that is marked so, up to its
// wait; any other holds it up.
//
//   const StepEstimate step = EstimateStep(program, machine);
//   step.exposed / step.seconds   // what a faster link could win
StepEstimate EstimateStep(const Program& program, const Machine& machine);
// The same, of a program whose plan is known to fuse `attention`.
StepEstimate EstimateStep(const Program& program, const Machine& machine,
                          std::vector<AttentionGroup> attention);

// What each instruction of such a program takes alone, in seconds; negative for
// one that has no kernel, or none of its own.
std::vector<double> InstructionSeconds(
    const Program& program, const Machine& machine,
    const std::vector<AttentionGroup>& attention);

}  // namespace mtf

#endif  // PLANNING_COST_ESTIMATE_TIME_H_
