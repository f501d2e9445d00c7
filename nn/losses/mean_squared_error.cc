// SPDX-License-Identifier: Apache-2.0
#include "nn/losses/mean_squared_error.h"

#include "nn/losses/elementwise_loss.h"
#include "ops/elementwise.h"

namespace mtf::nn {

Tensor MeanSquaredError(Tensor x, Tensor targets,
                        MeanSquaredErrorOptions options,
                        std::source_location location) {
  return internal::ElementwiseLoss(
      "mean_squared_error", x, targets,
      {options.weights, options.per_position, options.name}, location,
      [](Tensor x, Tensor target) { return Square(x - target); });
}

}  // namespace mtf::nn
