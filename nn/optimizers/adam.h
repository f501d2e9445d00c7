// SPDX-License-Identifier: Apache-2.0
#ifndef NN_OPTIMIZERS_ADAM_H_
#define NN_OPTIMIZERS_ADAM_H_

#include <functional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "mtf/graph.h"
#include "mtf/tensor.h"
#include "nn/optimizers/loss_scale.h"
#include "nn/optimizers/schedules.h"

namespace mtf::nn {

struct AdamOptions {
  Schedule learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;             // outside of the square root
  double max_gradient_norm = 0;      // 0: no clipping; see ClipByGlobalNorm
  LossScaleOptions loss_scale = {};  // for f16
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
// section.
//
// If a parameter has a narrower dtype than its initial value (mtf/precision.h),
// its master copy "<name>/<variable>/master", which all optimizers share, is
// part of the state: the update changes the master copy, and the parameter is
// the rounded master copy.
class Adam {
 public:
  explicit Adam(AdamOptions options = {}) : options_(std::move(options)) {}

  // Updates every trainable float parameter on which the scalar `loss` depends.
  // Returns a scalar; a step that fetches it performs the update. If `loss`
  // depends on f16 values, it is scaled (nn/optimizers/loss_scale.h).
  //
  // Records kInvalidArgument in the graph if `loss` is not a float scalar or
  // depends on no such parameter; the learning rate schedule has an error or
  // does not return an f32 scalar; a beta is outside [0, 1); epsilon is not
  // positive; weight_decay or max_gradient_norm is negative; one of these
  // numbers is not finite in f32; or Scope rejects the name. Returns an empty
  // Tensor if `loss` is empty.
  Tensor Minimize(Tensor loss, std::source_location location =
                                   std::source_location::current()) const;

  // Updates `variables`, which are results of Variable(), by one gradient each.
  // A gradient has the dimensions of its variable in any order; a variable with
  // an empty gradient does not change. Gradients are not unscaled. Returns a
  // scalar, as Minimize does.
  //
  //   Tensor step = optimizer.Apply(Gradients(loss, {w1, w2}), {w1, w2});
  //
  // Records kInvalidArgument in the graph if the lists differ in length; an
  // element of `variables` is not a float variable or occurs twice; a gradient
  // is not a float, has other dimensions or belongs to another graph; all
  // gradients are empty; or for an option, as above. Returns an empty Tensor if
  // all tensors are empty.
  Tensor Apply(
      std::vector<Tensor> gradients, std::vector<Tensor> variables,
      std::source_location location = std::source_location::current()) const;

 private:
  AdamOptions options_;
};

struct AdamWOptions {
  Schedule learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  // Whether a parameter decays. Null: all do.
  std::function<bool(const VariableInfo&)> decays = nullptr;
  double max_gradient_norm = 0;      // 0: no clipping; see ClipByGlobalNorm
  LossScaleOptions loss_scale = {};  // for f16
  std::string name = "adamw";
};

// Adam with decoupled weight decay (Loshchilov and Hutter, 2019): each update
// also subtracts learning_rate * weight_decay * parameter, which does not enter
// the moments. Minimize and Apply are those of Adam, with the same errors.
//
//   Tensor step = nn::AdamW({.learning_rate = 3e-3}).Minimize(loss);
class AdamW {
 public:
  explicit AdamW(AdamWOptions options = {}) : options_(std::move(options)) {}

  Tensor Minimize(Tensor loss, std::source_location location =
                                   std::source_location::current()) const;
  Tensor Apply(
      std::vector<Tensor> gradients, std::vector<Tensor> variables,
      std::source_location location = std::source_location::current()) const;

 private:
  AdamWOptions options_;
};

}  // namespace mtf::nn

#endif  // NN_OPTIMIZERS_ADAM_H_
