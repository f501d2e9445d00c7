// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/sgd.h"

#include "mtf/status.h"
#include "nn/optimizers/common_options.h"
#include "ops/checks.h"
#include "ops/elementwise.h"

namespace mtf::nn {
namespace {

absl::Status Check(const SgdOptions& o) {
  MTF_RETURN_IF_ERROR(mtf::internal::CheckBelowOne(".momentum", o.momentum));
  MTF_RETURN_IF_ERROR(mtf::internal::CheckBelowOne(".dampening", o.dampening));
  if (o.momentum == 0 && (o.nesterov || o.dampening != 0)) {
    return absl::InvalidArgumentError(
        "without .momentum, .nesterov and .dampening have no effect");
  }
  if (!o.nesterov || o.dampening == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "momentum of Nesterov (.nesterov) has no .dampening");
}

}  // namespace

Optimizer Sgd(SgdOptions o) {
  const auto make_rule = [o](Tensor step, Tensor learning_rate) {
    Tensor damped;  // the factor of a gradient
    if (o.dampening != 0) {
      damped = Select(Equal(step, 0.0), 1.0, 1.0 - o.dampening);
    }
    return [o, learning_rate, damped](ParameterUpdate& p) {
      Tensor update = p.gradient;
      if (p.weight_decay != 0) update = update + p.weight_decay * p.value;
      if (o.momentum != 0) {
        const Tensor state = p.State("velocity", p.variable.shape);
        // The update uses the new velocity.
        const Tensor velocity =
            o.momentum * state + (damped.valid() ? damped * update : update);
        p.SetState(state, velocity);
        update = o.nesterov ? update + o.momentum * velocity : velocity;
      }
      return p.value - learning_rate * update;
    };
  };
  return Optimizer(
      internal::CommonOptions(o, o.learning_rate, make_rule, Check(o)));
}

}  // namespace mtf::nn
