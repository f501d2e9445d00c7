// SPDX-License-Identifier: Apache-2.0
#include "planning/cost/pipeline_time.h"

namespace mtf {

double PipelineSeconds(const PipelineStep& step) {
  const double chunks = static_cast<double>(step.interleave);
  const double boundary = step.stages > 1 ? 2 * step.boundary : 0;
  return static_cast<double>(step.microbatches) *
             (step.slowest_stage + chunks * boundary) +
         static_cast<double>(step.stages - 1) *
             (step.stage / chunks + boundary) +
         step.update;
}

}  // namespace mtf
