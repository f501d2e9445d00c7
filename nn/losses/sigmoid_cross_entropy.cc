// SPDX-License-Identifier: Apache-2.0
#include "nn/losses/sigmoid_cross_entropy.h"

#include "nn/losses/elementwise_loss.h"
#include "ops/elementwise.h"

namespace mtf::nn {

Tensor SigmoidCrossEntropy(Tensor logits, Tensor targets,
                           SigmoidCrossEntropyOptions options,
                           std::source_location location) {
  return internal::ElementwiseLoss(
      "sigmoid_cross_entropy", logits, targets,
      {options.weights, options.per_position, options.name}, location,
      [](Tensor x, Tensor target) { return Softplus(x) - x * target; });
}

}  // namespace mtf::nn
