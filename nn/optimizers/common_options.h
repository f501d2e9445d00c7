// SPDX-License-Identifier: Apache-2.0
//
// For authors of the optimizers in this folder.
#ifndef NN_OPTIMIZERS_COMMON_OPTIONS_H_
#define NN_OPTIMIZERS_COMMON_OPTIONS_H_

#include <utility>

#include "absl/status/status.h"
#include "nn/optimizers/optimizer.h"
#include "nn/optimizers/schedules.h"

namespace mtf::nn::internal {

// The options that all optimizers have, from those of one of them. `status` is
// the error in its other options.
template <class Options>
OptimizerOptions CommonOptions(const Options& o, Schedule learning_rate,
                               MakeUpdateRule make_rule, absl::Status status) {
  return {.learning_rate = std::move(learning_rate),
          .make_rule = std::move(make_rule),
          .weight_decay = o.weight_decay,
          .groups = o.groups,
          .max_gradient_norm = o.max_gradient_norm,
          .accumulate_steps = o.accumulate_steps,
          .average_decay = o.average_decay,
          .loss_scale = o.loss_scale,
          .skip_non_finite = o.skip_non_finite,
          .status = std::move(status),
          .name = o.name};
}

}  // namespace mtf::nn::internal

#endif  // NN_OPTIMIZERS_COMMON_OPTIONS_H_
