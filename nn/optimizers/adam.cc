// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/adam.h"

#include "mtf/status.h"
#include "nn/optimizers/optimizer.h"
#include "ops/checks.h"
#include "ops/elementwise.h"

namespace mtf::nn {
namespace {

absl::Status Check(const AdamWOptions& o) {
  MTF_RETURN_IF_ERROR(mtf::internal::CheckBelowOne(".beta1", o.beta1));
  MTF_RETURN_IF_ERROR(mtf::internal::CheckBelowOne(".beta2", o.beta2));
  // With 0, the update would be NaN if the gradient has always been 0.
  MTF_RETURN_IF_ERROR(mtf::internal::CheckPositive(".epsilon", o.epsilon));
  return mtf::internal::CheckNotNegative(".weight_decay", o.weight_decay);
}

// Implements both optimizers: Adam is AdamW without decay.
Optimizer OptimizerOf(const AdamWOptions& o) {
  const auto make_rule = [o](Tensor step, Tensor learning_rate) {
    // Apply the bias corrections c1 and c2 to scalars instead of elements:
    // m / c1 / (sqrt(v / c2) + epsilon).
    const Tensor t = step + 1.0;
    const Tensor rate = learning_rate / (1.0 - Pow(o.beta1, t));
    const Tensor root = Rsqrt(1.0 - Pow(o.beta2, t));
    Tensor kept = learning_rate;  // of a parameter that decays
    if (o.weight_decay != 0) kept = 1.0 - o.weight_decay * learning_rate;
    return [o, rate, root, kept](ParameterUpdate& p) {
      const Tensor m = p.State("m", p.variable.shape);
      const Tensor v = p.State("v", p.variable.shape);
      const Tensor new_m = o.beta1 * m + (1.0 - o.beta1) * p.gradient;
      const Tensor new_v = o.beta2 * v + (1.0 - o.beta2) * Square(p.gradient);
      p.SetState(m, new_m);
      p.SetState(v, new_v);
      Tensor value = p.value;
      if (o.weight_decay != 0 &&
          (o.decays == nullptr || o.decays(p.variable))) {
        value = value * kept;
      }
      return value - rate * new_m / (Sqrt(new_v) * root + o.epsilon);
    };
  };
  return Optimizer({.learning_rate = o.learning_rate,
                    .make_rule = make_rule,
                    .max_gradient_norm = o.max_gradient_norm,
                    .loss_scale = o.loss_scale,
                    .status = Check(o),
                    .name = o.name});
}

Optimizer OptimizerOf(const AdamOptions& o) {
  return OptimizerOf(AdamWOptions{.learning_rate = o.learning_rate,
                                  .beta1 = o.beta1,
                                  .beta2 = o.beta2,
                                  .epsilon = o.epsilon,
                                  .weight_decay = 0,
                                  .max_gradient_norm = o.max_gradient_norm,
                                  .loss_scale = o.loss_scale,
                                  .name = o.name});
}

}  // namespace

Tensor Adam::Minimize(Tensor loss, std::source_location location) const {
  return OptimizerOf(options_).Minimize(loss, location);
}

Tensor Adam::Apply(std::vector<Tensor> gradients, std::vector<Tensor> variables,
                   std::source_location location) const {
  return OptimizerOf(options_).Apply(std::move(gradients), std::move(variables),
                                     location);
}

Tensor AdamW::Minimize(Tensor loss, std::source_location location) const {
  return OptimizerOf(options_).Minimize(loss, location);
}

Tensor AdamW::Apply(std::vector<Tensor> gradients,
                    std::vector<Tensor> variables,
                    std::source_location location) const {
  return OptimizerOf(options_).Apply(std::move(gradients), std::move(variables),
                                     location);
}

}  // namespace mtf::nn
