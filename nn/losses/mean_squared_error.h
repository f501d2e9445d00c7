// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LOSSES_MEAN_SQUARED_ERROR_H_
#define NN_LOSSES_MEAN_SQUARED_ERROR_H_

#include <source_location>
#include <string>

#include "mtf/tensor.h"

namespace mtf::nn {

struct MeanSquaredErrorOptions {
  // The weight of each element, with any of the dimensions of `x`, in any
  // dtype. The loss is the weighted mean, or 0 if all weights are 0. Empty: all
  // weights are equal.
  Tensor weights = Tensor();
  // Return the loss of each element, times its weight, instead of the mean.
  bool per_position = false;
  std::string name = "mean_squared_error";
};

// The mean over elements of (x - target)^2, in f32.
//
//   Tensor loss = nn::MeanSquaredError(y, targets);  // to a scalar
//
// `targets` have the dimensions of `x`, in any order, and any dtype. They have
// a gradient if they are floats.
//
// Records kInvalidArgument in the graph if `x` is not a float, the targets have
// other dimensions, the weights have a dimension that `x` lacks, one of `x` and
// targets is empty, or a tensor belongs to another graph. Returns an empty
// Tensor if both are empty.
Tensor MeanSquaredError(
    Tensor x, Tensor targets, MeanSquaredErrorOptions options = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LOSSES_MEAN_SQUARED_ERROR_H_
