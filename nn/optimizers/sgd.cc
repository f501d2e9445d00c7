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

internal::OptimizerSpec SpecOf(const SgdOptions& o) {
  return {o.name,
          o.learning_rate,
          o.max_gradient_norm,
          [o](Tensor, Tensor learning_rate) -> internal::UpdateRule {
            return [o, learning_rate](internal::ParameterUpdate& p) {
              Tensor update = p.gradient;
              if (o.weight_decay != 0) {
                update = update + o.weight_decay * p.value;
              }
              if (o.momentum != 0) {
                const Tensor state = p.State("velocity", p.variable.shape);
                // The update uses the new velocity.
                const Tensor velocity = o.momentum * state + update;
                p.SetState(state, velocity);
                update = o.nesterov ? update + o.momentum * velocity : velocity;
              }
              return p.value - learning_rate * update;
            };
          },
          Check(o),
          o.loss_scale};
}

}  // namespace

Tensor Sgd::Minimize(Tensor loss, std::source_location location) const {
  return internal::Minimize(SpecOf(options_), loss, location);
}

Tensor Sgd::Apply(std::vector<Tensor> gradients, std::vector<Tensor> variables,
                  std::source_location location) const {
  return internal::Apply(SpecOf(options_), std::move(gradients),
                         std::move(variables), location);
}

}  // namespace mtf::nn
