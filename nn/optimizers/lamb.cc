// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/lamb.h"

#include "nn/optimizers/adam_rule.h"
#include "nn/optimizers/common_options.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace mtf::nn {
namespace {

// |x| / |y|, or 1 if one of them is 0.
Tensor TrustRatio(Tensor x, Tensor y) {
  const Tensor x_square = ReduceSum(Square(x), {});
  const Tensor y_square = ReduceSum(Square(y), {});
  const Tensor defined =
      LogicalAnd(Greater(x_square, 0.0), Greater(y_square, 0.0));
  return Select(defined, Sqrt(x_square) / Sqrt(y_square), 1.0);
}

}  // namespace

Optimizer Lamb(LambOptions o) {
  const internal::AdamMoments moments = {o.beta1, o.beta2, o.epsilon};
  const auto make_rule = [o, moments](Tensor step, Tensor learning_rate) {
    const internal::AdamRule adam(moments, step, Like(learning_rate, 1));
    return [o, adam, learning_rate](ParameterUpdate& p) {
      Tensor update = adam.Direction(p);
      if (p.weight_decay != 0) update = update + p.weight_decay * p.value;
      Tensor rate = learning_rate;
      if (!MatchesAny(o.without_trust_ratio, p.variable.name)) {
        rate = rate * TrustRatio(p.value, update);
      }
      return p.value - rate * update;
    };
  };
  OptimizerOptions options = internal::CommonOptions(
      o, o.learning_rate, make_rule, internal::CheckMoments(moments));
  options.patterns = o.without_trust_ratio;
  return Optimizer(options);
}

}  // namespace mtf::nn
