// SPDX-License-Identifier: Apache-2.0
//
// Noise in training. In a graph for evaluation (ModeScope) both functions
// return their operand. Keep the shape and dtype. Return an empty Tensor if `x`
// is empty.
#ifndef NN_LAYERS_REGULARIZATION_H_
#define NN_LAYERS_REGULARIZATION_H_

#include <source_location>

#include "mtf/tensor.h"

namespace mtf::nn {

// Multiplies each element by a random number in [1 - epsilon, 1 + epsilon), as
// for the input of a router of experts (Fedus et al., 2021).
//
//   x = nn::Jitter(x, 1e-2);
//
// Records kInvalidArgument in the graph if `x` is not a float or epsilon is
// outside [0, 1).
Tensor Jitter(Tensor x, double epsilon,
              std::source_location location = std::source_location::current());

// Dropout with a rate that a step computes, a scalar f32 in [0, 1), such as one
// that falls over the first steps:
//
//   Tensor rate = 0.1 * nn::LinearDecay(0, 10000).At(step);
//   x = nn::AnnealedDropout(x, rate);
//
// Sets each element to 0 with this probability and divides the others by
// 1 - rate. The rate has no gradient. With a rate that never changes, Dropout()
// keeps the same fraction for less work.
//
// Records kInvalidArgument in the graph if `x` is not a float, or the rate is
// not a scalar f32, is empty or belongs to another graph.
Tensor AnnealedDropout(
    Tensor x, Tensor rate,
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LAYERS_REGULARIZATION_H_
