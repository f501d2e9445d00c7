// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LOSSES_SIGMOID_CROSS_ENTROPY_H_
#define NN_LOSSES_SIGMOID_CROSS_ENTROPY_H_

#include <source_location>
#include <string>

#include "mtf/tensor.h"

namespace mtf::nn {

struct SigmoidCrossEntropyOptions {
  // The weight of each element, with any of the dimensions of the logits, in
  // any dtype. The loss is the weighted mean, or 0 if all weights are 0. Empty:
  // all weights are equal.
  Tensor weights = Tensor();
  // Return the loss of each element, times its weight, instead of the mean.
  bool per_position = false;
  std::string name = "sigmoid_cross_entropy";
};

// The mean over elements of the cross entropy of sigmoid(logits), in f32, for
// classes that do not exclude each other:
//
//   -target * log(sigmoid(x)) - (1 - target) * log(1 - sigmoid(x))
//
//   // logits [batch, labels], targets [batch, labels] -> scalar
//   Tensor loss = nn::SigmoidCrossEntropy(logits, targets);
//
// `targets` have the dimensions of the logits, in any order, and any dtype:
// bools, or numbers in [0, 1]. Computed as softplus(x) - target * x, which is
// exact for large logits. The gradient of the logits is sigmoid(x) - target,
// divided by the number of elements. Targets of a float dtype have a gradient.
//
// Records kInvalidArgument in the graph if the logits are not floats, the
// targets have other dimensions, the weights have a dimension that the logits
// lack, one of logits and targets is empty, or a tensor belongs to another
// graph. Returns an empty Tensor if both are empty.
Tensor SigmoidCrossEntropy(
    Tensor logits, Tensor targets, SigmoidCrossEntropyOptions options = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LOSSES_SIGMOID_CROSS_ENTROPY_H_
