// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_REZERO_H_
#define NN_LAYERS_REZERO_H_

#include <source_location>
#include <string>

#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf::nn {

struct RezeroOptions {
  double initial = 0;
  // Dimensions of `x` with a scale of its own for each element.
  Shape each = Shape();
  std::string name = "rezero";
};

// `x` times a scalar parameter "scale", initially 0, so that a deep network of
// residual layers begins as the identity (Bachlechner et al., 2020).
//
//   x = x + nn::Rezero(nn::FeedForward(x, d_ff, Relu));
//
// Keeps the shape. The dtype is the activation dtype of the PrecisionScope, by
// default the dtype of `x`. Records kInvalidArgument in the graph if `x` is not
// a float or lacks a dimension of `each`, or `initial` is not finite. Returns
// an empty Tensor if `x` is empty.
Tensor Rezero(Tensor x, RezeroOptions options = {},
              std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LAYERS_REZERO_H_
