// SPDX-License-Identifier: Apache-2.0
#ifndef NN_OPTIMIZERS_LAMB_H_
#define NN_OPTIMIZERS_LAMB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nn/optimizers/loss_scale.h"
#include "nn/optimizers/optimizer.h"
#include "nn/optimizers/parameter_groups.h"
#include "nn/optimizers/schedules.h"

namespace mtf::nn {

struct LambOptions {
  Schedule learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;  // outside of the square root
  double weight_decay = 0.01;
  // Patterns of parameters (mtf/scope_pattern.h) whose trust ratio is 1, such
  // as "**/bias".
  std::vector<std::string> without_trust_ratio = {};
  std::vector<ParameterGroup> groups = {};
  double max_gradient_norm = 0;      // 0: no clipping; see ClipByGlobalNorm
  int64_t accumulate_steps = 1;      // steps per update
  double average_decay = 0;          // 0: no averages; see AverageScope
  LossScaleOptions loss_scale = {};  // for f16
  bool skip_non_finite = false;      // see OptimizerOptions
  std::string name = "lamb";
};

// LAMB (You et al., 2020), for large batches: AdamW whose update of each
// parameter is scaled to the norm of the parameter. With m and v of Adam and
// their bias corrections:
//
//   u <- m / (sqrt(v) + epsilon) + weight_decay * parameter
//   parameter <- parameter - learning_rate * |parameter| / |u| * u
//
// The trust ratio |parameter| / |u| is 1 if one of the norms is 0. State is
// that of Adam. Where a parameter is sharded, its two norms are all_reduced.
//
//   Tensor step = nn::Lamb({.without_trust_ratio = {"**/bias", "**/scale"},
//                           .groups = {{.parameters = "**/bias",
//                                       .weight_decay = 0},
//                                      {.parameters = "**/scale",
//                                       .weight_decay = 0}}})
//                     .Minimize(loss);
//
// Errors are those of Adam.
Optimizer Lamb(LambOptions options = {});

}  // namespace mtf::nn

#endif  // NN_OPTIMIZERS_LAMB_H_
