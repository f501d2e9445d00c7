// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/adam.h"

#include "nn/optimizers/adam_rule.h"
#include "nn/optimizers/common_options.h"
#include "ops/elementwise.h"

namespace mtf::nn {

Optimizer AdamW(AdamWOptions o) {
  const internal::AdamMoments moments = {o.beta1, o.beta2, o.epsilon};
  const auto make_rule = [o, moments](Tensor step, Tensor learning_rate) {
    const internal::AdamRule adam(moments, step, learning_rate);
    // Most parameters have the same decay, so they share this factor.
    Tensor kept = learning_rate;
    if (o.weight_decay != 0) kept = 1.0 - o.weight_decay * learning_rate;
    return [o, adam, learning_rate, kept](ParameterUpdate& p) {
      const Tensor direction = adam.Direction(p);
      Tensor value = p.value;
      if (p.weight_decay != 0) {
        value = value * (p.weight_decay == o.weight_decay
                             ? kept
                             : 1.0 - p.weight_decay * learning_rate);
      }
      return value - direction;
    };
  };
  return Optimizer(internal::CommonOptions(o, o.learning_rate, make_rule,
                                           internal::CheckMoments(moments)));
}

Optimizer Adam(AdamOptions o) {
  return AdamW({.learning_rate = o.learning_rate,
                .beta1 = o.beta1,
                .beta2 = o.beta2,
                .epsilon = o.epsilon,
                .weight_decay = 0,
                .groups = o.groups,
                .max_gradient_norm = o.max_gradient_norm,
                .accumulate_steps = o.accumulate_steps,
                .average_decay = o.average_decay,
                .loss_scale = o.loss_scale,
                .name = o.name});
}

}  // namespace mtf::nn
