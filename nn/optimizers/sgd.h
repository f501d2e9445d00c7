// SPDX-License-Identifier: Apache-2.0
#ifndef NN_OPTIMIZERS_SGD_H_
#define NN_OPTIMIZERS_SGD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nn/optimizers/loss_scale.h"
#include "nn/optimizers/optimizer.h"
#include "nn/optimizers/parameter_groups.h"
#include "nn/optimizers/schedules.h"

namespace mtf::nn {

struct SgdOptions {
  Schedule learning_rate = 0.01;
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
  double weight_decay = 0;  // adds this times the parameter to its gradient
  std::vector<ParameterGroup> groups = {};
  double max_gradient_norm = 0;      // 0: no clipping; see ClipByGlobalNorm
  int64_t accumulate_steps = 1;      // steps per update
  double average_decay = 0;          // 0: no averages; see AverageScope
  LossScaleOptions loss_scale = {};  // for f16
  bool skip_non_finite = false;      // see OptimizerOptions
  std::string name = "sgd";
};

// Stochastic gradient descent, with the momentum of Polyak, 1964, or of
// Nesterov, as formulated by Sutskever et al., 2013:
//
//   velocity  <- momentum * velocity + (1 - dampening) * g
//   parameter <- parameter - learning_rate * velocity
//                (nesterov: g + momentum * velocity)
//
// As in PyTorch, the first update sets the velocity to g, without dampening.
// The velocity is the f32 variable "<name>/<variable>/velocity", with the shape
// of the parameter. Without momentum there is no state.
//
//   Tensor step = nn::Sgd({.learning_rate = 0.1}).Minimize(loss);
//
// Errors are those of Minimize and Apply (nn/optimizers/optimizer.h), which
// also record kInvalidArgument if momentum or dampening is outside [0, 1); if
// one of dampening and nesterov is given without momentum, or both are given.
Optimizer Sgd(SgdOptions options = {});

}  // namespace mtf::nn

#endif  // NN_OPTIMIZERS_SGD_H_
