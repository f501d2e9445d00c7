// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_PLANNING_COST_PIPELINE_TIME_H_
#define TESTS_PLANNING_COST_PIPELINE_TIME_H_

#include <cstdint>

namespace mtf::testing {

// A training step of a model split into pipeline stages, each with its own
// program, under the one-forward-one-backward schedule (Narayanan et al.,
// 2021).
struct PipelineStep {
  int64_t stages = 1;
  // Model chunks per stage (interleaved schedule).
  int64_t interleave = 1;
  int64_t microbatches = 1;  // of one pipeline
  // Seconds of one microbatch, forward, backward and rematerialization: on a
  // typical stage and on the slowest, usually the one with the loss.
  double stage = 0;
  double slowest_stage = 0;
  // Seconds to send one microbatch to the next stage.
  double boundary = 0;
  // Seconds spent once per step: reducing gradients, the optimizer.
  double update = 0;
};

// Estimates the seconds of a pipelined step. The slowest stage processes all
// microbatches; each crosses a stage boundary twice per model chunk, forward
// and backward. Filling and draining the pipeline adds the time of (stages - 1)
// / interleave microbatches:
//
//   microbatches (slowest_stage + 2 interleave boundary)
//       + (stages - 1) (stage / interleave + 2 boundary) + update
//
// `boundary` is ignored if there is only one stage.
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
