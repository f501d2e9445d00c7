// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/adam_rule.h"

#include "absl/strings/str_cat.h"
#include "mtf/status.h"
#include "ops/checks.h"
#include "ops/elementwise.h"

namespace mtf::nn::internal {

absl::Status CheckMoments(const AdamMoments& moments,
                          absl::string_view prefix) {
  const auto name = [&](absl::string_view option) {
    return absl::StrCat(prefix, option);
  };
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckBelowOne(name("beta1"), moments.beta1));
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckBelowOne(name("beta2"), moments.beta2));
  // With 0, the update would be NaN if the gradient has always been 0.
  return mtf::internal::CheckPositive(name("epsilon"), moments.epsilon);
}

AdamRule::AdamRule(const AdamMoments& moments, Tensor step, Tensor rate)
    : moments_(moments) {
  const Tensor t = step + 1.0;
  rate_ = rate / (1.0 - Pow(moments.beta1, t));
  root_ = Rsqrt(1.0 - Pow(moments.beta2, t));
}

Tensor AdamRule::Direction(ParameterUpdate& p) const {
  const auto [beta1, beta2, epsilon] = moments_;
  const Tensor m = p.State("m", p.variable.shape);
  const Tensor v = p.State("v", p.variable.shape);
  const Tensor new_m = beta1 * m + (1.0 - beta1) * p.gradient;
  const Tensor new_v = beta2 * v + (1.0 - beta2) * Square(p.gradient);
  p.SetState(m, new_m);
  p.SetState(v, new_v);
  return rate_ * new_m / (Sqrt(new_v) * root_ + epsilon);
}

}  // namespace mtf::nn::internal
