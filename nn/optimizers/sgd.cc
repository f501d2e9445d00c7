// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/sgd.h"

#include "mtf/status.h"
#include "nn/optimizers/optimizer.h"
#include "ops/checks.h"
#include "ops/elementwise.h"

namespace mtf::nn {
namespace {

absl::Status Check(const SgdOptions& o) {
  MTF_RETURN_IF_ERROR(mtf::internal::CheckBelowOne(".momentum", o.momentum));
  return mtf::internal::CheckNotNegative(".weight_decay", o.weight_decay);
}

Optimizer OptimizerOf(const SgdOptions& o) {
  const auto make_rule = [o](Tensor, Tensor learning_rate) {
    return [o, learning_rate](ParameterUpdate& p) {
      Tensor update = p.gradient;
      if (o.weight_decay != 0) update = update + o.weight_decay * p.value;
      if (o.momentum != 0) {
        const Tensor state = p.State("velocity", p.variable.shape);
        // The update uses the new velocity.
        const Tensor velocity = o.momentum * state + update;
        p.SetState(state, velocity);
        update = o.nesterov ? update + o.momentum * velocity : velocity;
      }
      return p.value - learning_rate * update;
    };
  };
  return Optimizer({.learning_rate = o.learning_rate,
                    .make_rule = make_rule,
                    .max_gradient_norm = o.max_gradient_norm,
                    .loss_scale = o.loss_scale,
                    .status = Check(o),
                    .name = o.name});
}

}  // namespace

Tensor Sgd::Minimize(Tensor loss, std::source_location location) const {
  return OptimizerOf(options_).Minimize(loss, location);
}

Tensor Sgd::Apply(std::vector<Tensor> gradients, std::vector<Tensor> variables,
                  std::source_location location) const {
  return OptimizerOf(options_).Apply(std::move(gradients), std::move(variables),
                                     location);
}

}  // namespace mtf::nn
