// SPDX-License-Identifier: Apache-2.0
//
// Functions that change gradients and not values. They record kInvalidArgument
// in the graph if `x` is not a float, and return an empty Tensor if all tensors
// are empty.
#ifndef NN_LAYERS_GRADIENT_CONTROL_H_
#define NN_LAYERS_GRADIENT_CONTROL_H_

#include <source_location>

#include "mtf/tensor.h"

namespace mtf::nn {

// `x`, with its gradient times `scale`. -1 reverses gradients (Ganin et al.,
// 2016). Records kInvalidArgument if `scale` is not finite.
Tensor ScaleGradient(
    Tensor x, double scale,
    std::source_location location = std::source_location::current());

// `x`, with its gradient divided by a common factor if the root mean square of
// all its elements exceeds `rms`, so that it becomes `rms`. Records
// kInvalidArgument if `rms` is not positive and finite.
//
//   x = x + nn::ClipActivationGradient(layer(x), 1.0);
Tensor ClipActivationGradient(
    Tensor x, double rms,
    std::source_location location = std::source_location::current());

// `value`, with the gradient of `x`: a straight-through estimator (Bengio et
// al., 2013) for functions that have no useful gradient.
//
//   Tensor rounded = nn::StraightThrough(Floor(x + 0.5), x);
//
// Records kInvalidArgument if `value` is not a float, has other dimensions than
// `x`, or one of the two is empty or belongs to another graph.
Tensor StraightThrough(
    Tensor value, Tensor x,
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LAYERS_GRADIENT_CONTROL_H_
