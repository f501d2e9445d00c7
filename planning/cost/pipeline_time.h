// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_COST_PIPELINE_TIME_H_
#define PLANNING_COST_PIPELINE_TIME_H_

#include <cstdint>

namespace mtf {

// A training step over stages that a user has cut a model into, each with its
// own program: microbatches go through them one forward, one backward
// (Narayanan et al., 2021).
struct PipelineStep {
  int64_t stages = 1;
  // Parts of the model that each stage has, not next to one another.
  int64_t interleave = 1;
  int64_t microbatches = 1;  // of one pipeline
  // Seconds of one microbatch forward, backward and recomputed: on most stages,
  // and on the slowest, usually the one with the loss.
  double stage = 0;
  double slowest_stage = 0;
  // Seconds to hand one microbatch to the next stage, one way.
  double boundary = 0;
  // Seconds of what happens once in a step: reducing gradients, the optimizer.
  double update = 0;
};

// The slowest stage works through all microbatches, each of which comes in and
// goes out once for every part of the model and direction; the pipeline fills
// and drains for (stages - 1) / interleave microbatches:
//
//   microbatches (slowest_stage + 2 interleave boundary)
//       + (stages - 1) (stage / interleave + 2 boundary) + update
//
// Without a second stage there is no boundary.
double PipelineSeconds(const PipelineStep& step);

}  // namespace mtf

#endif  // PLANNING_COST_PIPELINE_TIME_H_
