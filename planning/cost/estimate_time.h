// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_COST_ESTIMATE_TIME_H_
#define PLANNING_COST_ESTIMATE_TIME_H_

#include <vector>

#include "lowering/program/program.h"
#include "planning/machine/machine.h"

namespace mtf {

// When one instruction runs on a rank, in seconds from the start of the step.
struct TimedInstruction {
  int instruction = -1;  // index into Program::instructions
  bool is_collective = false;
  bool is_host_copy = false;  // blocks compute, but is not part of it
  double begin = 0;
  double end = 0;
  // The time of a collective during which no kernel runs.
  double exposed = 0;
};

// The estimated timeline of a step and its totals.
struct StepEstimate {
  double seconds = 0;      // duration of the step
  double compute = 0;      // sum over kernels
  double collectives = 0;  // sum over collectives
  double host_copies = 0;  // sum over copies to and from host memory
  double exposed = 0;      // time of collectives during which no kernel runs
  std::vector<TimedInstruction> timeline;  // instructions that take time
};

// Estimates one step of a lowered program (all passes run) on `machine`.
//
// Compute runs in program order. A collective begins when the instructions
// before it are computed and the previous collective is done. If the machine
// overlaps, an asynchronous collective runs concurrently with compute up to its
// wait; other collectives block compute.
//
//   const StepEstimate step = EstimateStep(program, machine);
//   step.exposed / step.seconds   // what a faster link could save
StepEstimate EstimateStep(const Program& program, const Machine& machine);

// The seconds of each instruction by itself; negative for instructions without
// a kernel.
std::vector<double> InstructionSeconds(const Program& program,
                                       const Machine& machine);

}  // namespace mtf

#endif  // PLANNING_COST_ESTIMATE_TIME_H_
