// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/lion.h"

#include "mtf/status.h"
#include "nn/optimizers/common_options.h"
#include "ops/checks.h"
#include "ops/elementwise.h"

namespace mtf::nn {
namespace {

absl::Status Check(const LionOptions& o) {
  MTF_RETURN_IF_ERROR(mtf::internal::CheckBelowOne(".beta1", o.beta1));
  return mtf::internal::CheckBelowOne(".beta2", o.beta2);
}

}  // namespace

Optimizer Lion(LionOptions o) {
  const auto make_rule = [o](Tensor, Tensor learning_rate) {
    return [o, learning_rate](ParameterUpdate& p) {
      const Tensor m = p.State("m", p.variable.shape);
      p.SetState(m, o.beta2 * m + (1.0 - o.beta2) * p.gradient);
      Tensor update = Sign(o.beta1 * m + (1.0 - o.beta1) * p.gradient);
      if (p.weight_decay != 0) update = update + p.weight_decay * p.value;
      return p.value - learning_rate * update;
    };
  };
  return Optimizer(
      internal::CommonOptions(o, o.learning_rate, make_rule, Check(o)));
}

}  // namespace mtf::nn
