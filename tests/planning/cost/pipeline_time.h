// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_PLANNING_COST_PIPELINE_TIME_H_
#define TESTS_PLANNING_COST_PIPELINE_TIME_H_

#include <cstdint>

namespace mtf::testing {

// A training step of a pipeline whose stages are programs of their own, with
// microbatches in the order one forward, one backward (Narayanan et al., 2021).
struct PipelineStep {
  int64_t stages = 1;
  // Chunks of layers that each stage has, not adjacent to one another.
  int64_t interleave = 1;
  int64_t microbatches = 1;  // of one pipeline
  // Seconds of one microbatch forward, backward and recomputed: on most stages,
  // and on the slowest, usually the one with the loss.
  double stage = 0;
  double slowest_stage = 0;
  // Seconds to hand one microbatch to the next stage, one way.
  double boundary = 0;
  // Seconds of the work done once in a step: gradient reduction, optimizer.
  double update = 0;
};

// The slowest stage processes all microbatches, each of which enters and leaves
// it once for every chunk and direction; the pipeline fills and drains for
// (stages - 1) / interleave microbatches:
//
//   microbatches (slowest_stage + 2 interleave boundary)
//       + (stages - 1) (stage / interleave + 2 boundary) + update
//
// Without a second stage there is no boundary.
inline double PipelineSeconds(const PipelineStep& step) {
  const double chunks = static_cast<double>(step.interleave);
  const double boundary = step.stages > 1 ? 2 * step.boundary : 0;
  return static_cast<double>(step.microbatches) *
             (step.slowest_stage + chunks * boundary) +
         static_cast<double>(step.stages - 1) *
             (step.stage / chunks + boundary) +
         step.update;
}

}  // namespace mtf::testing

#endif  // TESTS_PLANNING_COST_PIPELINE_TIME_H_
