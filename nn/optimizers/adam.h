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
  LossScaleOptions loss_scale = {};  // for values of f16
  std::string name = "adam";
};

// Adam (Kingma and Ba, 2015), with its correction of the bias towards the zeros
// the moments start from. With t = 1 for the first update:
//
//   m <- beta1 * m + (1 - beta1) * g
//   v <- beta2 * v + (1 - beta2) * g^2
//   parameter <- parameter - learning_rate * (m / (1 - beta1^t)) /
//                            (sqrt(v / (1 - beta2^t)) + epsilon)
//
//   Tensor step = nn::Adam({.learning_rate = 1e-3}).Minimize(loss);
//
// Moments and arithmetic are f32 whatever the dtype of the parameter. State is
// called "<name>/<variable>/m", counted by the variable "<name>/step", and has
// the layout of the [optimizer] section, as has the arithmetic of the update.
// A parameter that is narrower than its initial value (mtf/precision.h) has its
// master copy there too, "<name>/<variable>/master", shared by all optimizers:
// the update starts from the master, and the parameter is the new one, rounded.
class Adam {
 public:
  explicit Adam(AdamOptions options = {}) : options_(std::move(options)) {}

  // One update of every trainable float parameter that the scalar `loss`
  // depends on. Returns a scalar; a step that fetches it makes the update. A
  // loss that depends on values of f16 is scaled, see
  // nn/optimizers/loss_scale.h; gradients given to Apply are taken as they are.
  //
  // kInvalidArgument, as the graph's first error (Graph::status(),
  // Session::Create), for a loss that is no float scalar or depends on no such
  // parameter, a learning rate whose schedule is wrong or gives no f32 scalar,
  // a beta outside of [0, 1), an epsilon that is not positive, a weight_decay
  // or max_gradient_norm that is negative, one of these numbers that is not
  // finite in f32, and a name that Scope refuses. An empty `loss` gives an
  // empty Tensor.
  Tensor Minimize(Tensor loss, std::source_location location =
                                   std::source_location::current()) const;

  // One update of `variables`, results of Variable(), by as many `gradients` of
  // the same dimensions in any order. A variable whose gradient is empty stays
  // as it is. Returns a scalar, as Minimize does.
  //
  //   Tensor step = optimizer.Apply(Gradients(loss, {w1, w2}), {w1, w2});
  //
  // kInvalidArgument for lists of two lengths, what is no float variable, one
  // that is listed twice, a gradient that is no float, of other dimensions or
  // of another graph, no gradient at all, and a wrong rate, option or name as
  // above.
  // Lists without any tensor give an empty Tensor.
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
  // Which parameters decay; null: all.
  std::function<bool(const VariableInfo&)> decays = nullptr;
  double max_gradient_norm = 0;      // 0: no clipping; see ClipByGlobalNorm
  LossScaleOptions loss_scale = {};  // for values of f16
  std::string name = "adamw";
};

// Adam with decoupled weight decay (Loshchilov and Hutter, 2019): the parameter
// also loses learning_rate * weight_decay of itself, which the moments do not
// see. Minimize and Apply, with their errors, are those of Adam.
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
