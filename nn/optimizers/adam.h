// SPDX-License-Identifier: Apache-2.0
#ifndef NN_OPTIMIZERS_ADAM_H_
#define NN_OPTIMIZERS_ADAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nn/optimizers/loss_scale.h"
#include "nn/optimizers/optimizer.h"
#include "nn/optimizers/parameter_groups.h"
#include "nn/optimizers/schedules.h"

namespace mtf::nn {

struct AdamOptions {
  Schedule learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;  // outside of the square root
  std::vector<ParameterGroup> groups = {};
  double max_gradient_norm = 0;      // 0: no clipping; see ClipByGlobalNorm
  int64_t accumulate_steps = 1;      // steps per update
  double average_decay = 0;          // 0: no averages; see AverageScope
  LossScaleOptions loss_scale = {};  // for f16
  bool skip_non_finite = false;      // see OptimizerOptions
  std::string name = "adam";
};

// Adam (Kingma and Ba, 2015), with bias correction. With t = 1 for the first
// update:
//
//   m <- beta1 * m + (1 - beta1) * g
//   v <- beta2 * v + (1 - beta2) * g^2
//   parameter <- parameter - learning_rate * (m / (1 - beta1^t)) /
//                            (sqrt(v / (1 - beta2^t)) + epsilon)
//
//   Tensor step = nn::Adam({.learning_rate = 1e-3}).Minimize(loss);
//
// Moments and arithmetic are f32 regardless of the dtype of the parameter. The
// state consists of the variables "<name>/<variable>/m" and ".../v" and the
// counter "<name>/step". State and update have the layout of the [optimizer]
// section. A weight decay of a group is decoupled, as that of AdamW.
//
// Errors are those of Minimize and Apply (nn/optimizers/optimizer.h), which
// also record kInvalidArgument if a beta is outside [0, 1) or epsilon is not
// positive.
Optimizer Adam(AdamOptions options = {});

struct AdamWOptions {
  Schedule learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  std::vector<ParameterGroup> groups = {};
  double max_gradient_norm = 0;      // 0: no clipping; see ClipByGlobalNorm
  int64_t accumulate_steps = 1;      // steps per update
  double average_decay = 0;          // 0: no averages; see AverageScope
  LossScaleOptions loss_scale = {};  // for f16
  bool skip_non_finite = false;      // see OptimizerOptions
  std::string name = "adamw";
};

// Adam with decoupled weight decay (Loshchilov and Hutter, 2019): each update
// also subtracts learning_rate * weight_decay * parameter, which does not enter
// the moments. State and errors are those of Adam.
//
//   Tensor step = nn::AdamW({.learning_rate = 3e-3,
//                            .groups = {{.parameters = "**/bias",
//                                        .weight_decay = 0}}})
//                     .Minimize(loss);
Optimizer AdamW(AdamWOptions options = {});

}  // namespace mtf::nn

#endif  // NN_OPTIMIZERS_ADAM_H_
