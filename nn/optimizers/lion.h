// SPDX-License-Identifier: Apache-2.0
#ifndef NN_OPTIMIZERS_LION_H_
#define NN_OPTIMIZERS_LION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nn/optimizers/loss_scale.h"
#include "nn/optimizers/optimizer.h"
#include "nn/optimizers/parameter_groups.h"
#include "nn/optimizers/schedules.h"

namespace mtf::nn {

struct LionOptions {
  Schedule learning_rate = 1e-4;
  double beta1 = 0.9;   // of the update
  double beta2 = 0.99;  // of the momentum
  double weight_decay = 0;
  std::vector<ParameterGroup> groups = {};
  double max_gradient_norm = 0;      // 0: no clipping; see ClipByGlobalNorm
  int64_t accumulate_steps = 1;      // steps per update
  double average_decay = 0;          // 0: no averages; see AverageScope
  LossScaleOptions loss_scale = {};  // for f16
  bool skip_non_finite = false;      // see OptimizerOptions
  std::string name = "lion";
};

// Lion (Chen et al., 2023), which keeps one momentum and steps by its sign:
//
//   u <- sign(beta1 * m + (1 - beta1) * g)
//   m <- beta2 * m + (1 - beta2) * g
//   parameter <- parameter - learning_rate * (u + weight_decay * parameter)
//
// Its learning rates are 3 to 10 times lower than those of AdamW, and its
// weight decay as much higher. The state is the f32 variable
// "<name>/<variable>/m".
//
//   Tensor step =
//       nn::Lion({.learning_rate = 1e-4, .weight_decay = 1}).Minimize(loss);
//
// Errors are those of Minimize and Apply (nn/optimizers/optimizer.h), which
// also record kInvalidArgument if a beta is outside [0, 1).
Optimizer Lion(LionOptions options = {});

}  // namespace mtf::nn

#endif  // NN_OPTIMIZERS_LION_H_
