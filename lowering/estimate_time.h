// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_ESTIMATE_TIME_H_
#define LOWERING_ESTIMATE_TIME_H_

#include <vector>

#include "lowering/machine.h"
#include "lowering/program.h"

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
};

// Estimates one step of a lowered program (all passes run) on `machine`.
// Compute runs in program order. A collective starts when its operands are
// there and the collective before it is done; where the machine overlaps,
// compute goes on until an instruction needs its result.
//
//   const StepEstimate step = EstimateStep(program, machine);
//   step.exposed / step.seconds   // what a faster link could win
StepEstimate EstimateStep(const Program& program, const Machine& machine);

}  // namespace mtf

#endif  // LOWERING_ESTIMATE_TIME_H_
