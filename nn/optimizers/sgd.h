// SPDX-License-Identifier: Apache-2.0
#ifndef NN_OPTIMIZERS_SGD_H_
#define NN_OPTIMIZERS_SGD_H_

#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "mtf/tensor.h"
#include "nn/optimizers/loss_scale.h"
#include "nn/optimizers/schedules.h"

namespace mtf::nn {

struct SgdOptions {
  Schedule learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;  // adds this times the parameter to its gradient
  double max_gradient_norm = 0;      // 0: no clipping; see ClipByGlobalNorm
  LossScaleOptions loss_scale = {};  // for f16
  std::string name = "sgd";
};

// Stochastic gradient descent, with the momentum of Polyak, 1964, or of
// Nesterov, as formulated by Sutskever et al., 2013:
//
//   velocity  <- momentum * velocity + g
//   parameter <- parameter - learning_rate * velocity
//                (nesterov: g + momentum * velocity)
//
// The velocity is the f32 variable "<name>/<variable>/velocity", with the shape
// of the parameter. Without momentum there is no state.
//
//   Tensor step = nn::Sgd({.learning_rate = 0.1}).Minimize(loss);
//
// Minimize and Apply are as in nn/optimizers/adam.h, with the same errors. Also
// records kInvalidArgument if momentum is outside [0, 1), or weight_decay is
// negative or not finite.
class Sgd {
 public:
  explicit Sgd(SgdOptions options = {}) : options_(std::move(options)) {}

  Tensor Minimize(Tensor loss, std::source_location location =
                                   std::source_location::current()) const;
  Tensor Apply(
      std::vector<Tensor> gradients, std::vector<Tensor> variables,
      std::source_location location = std::source_location::current()) const;

 private:
  SgdOptions options_;
};

}  // namespace mtf::nn

#endif  // NN_OPTIMIZERS_SGD_H_
