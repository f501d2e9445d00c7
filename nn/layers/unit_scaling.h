// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_UNIT_SCALING_H_
#define NN_LAYERS_UNIT_SCALING_H_

#include <source_location>
#include <vector>

#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf::nn {

struct UnitScalingOptions {
  // Gives the value and the gradient of the first input, the activation, one
  // scale, the geometric mean of both, so that gradients of layers before this
  // one keep their direction. Those of the other inputs, parameters, have
  // scales of their own.
  bool constrain = true;
};

// Einsum with unit scaling (Blake et al., 2023): if the elements of all inputs
// are independent with variance 1, so are those of the result, and of the
// gradients for a gradient of the result of variance 1. So f16 and FP8 need no
// loss scaling. By convention, parameters are initialized with variance 1.
//
//   Tensor w = nn::Parameter(graph, "w",
//       RandomNormal(graph, {io, hidden}, 0, 1, {.per_step = false}),
//       x.dtype());
//   Tensor h = nn::UnitScaledEinsum({x, w}, {batch, hidden});
//
// A sum over n elements is divided by sqrt(n): for the value, n is the product
// of the sizes that `output` leaves out; for the gradient of an input, of those
// that the input leaves out. Errors are those of Einsum.
Tensor UnitScaledEinsum(
    std::vector<Tensor> inputs, Shape output, UnitScalingOptions options = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LAYERS_UNIT_SCALING_H_
