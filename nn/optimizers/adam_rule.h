// SPDX-License-Identifier: Apache-2.0
//
// The moments of Adam, for the optimizers that are written with them. Not for
// users.
#ifndef NN_OPTIMIZERS_ADAM_RULE_H_
#define NN_OPTIMIZERS_ADAM_RULE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "mtf/tensor.h"
#include "nn/optimizers/optimizer.h"

namespace mtf::nn::internal {

struct AdamMoments {
  double beta1, beta2, epsilon;
};

// Errors call the numbers "<prefix>beta1" and so on.
absl::Status CheckMoments(const AdamMoments& moments,
                          absl::string_view prefix = ".");

// One step of Adam. With t = step + 1:
//
//   m <- beta1 * m + (1 - beta1) * g
//   v <- beta2 * v + (1 - beta2) * g^2
//   direction = rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) +
//   epsilon)
class AdamRule {
 public:
  // `rate` and `step` are f32 scalars.
  AdamRule(const AdamMoments& moments, Tensor step, Tensor rate);

  // Updates the state "m" and "v" of the parameter.
  Tensor Direction(ParameterUpdate& p) const;

 private:
  AdamMoments moments_;
  // The bias corrections are applied to scalars instead of elements.
  Tensor rate_, root_;
};

}  // namespace mtf::nn::internal

#endif  // NN_OPTIMIZERS_ADAM_RULE_H_
