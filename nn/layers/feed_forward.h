// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_FEED_FORWARD_H_
#define NN_LAYERS_FEED_FORWARD_H_

#include <source_location>
#include <string>

#include "mtf/dimension.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"
#include "nn/layers/activations.h"

namespace mtf::nn {

struct FeedForwardOptions {
  bool bias = false;
  // Multiplies the activation by a second projection (Dauphin et al., 2017;
  // Shazeer, 2020): out(activation(gate(x)) * in(x)). The activation gives the
  // unit its name: Sigmoid GLU, Relu ReGLU, Gelu GEGLU, Swish SwiGLU, and null
  // bilinear.
  bool gated = false;
  double dropout = 0;  // of the hidden layer
  // Dimensions of `x` with kernels of its own for each element, such as
  // experts.
  Shape each = {};
  std::string name = "feed_forward";
};

// Two linear layers with an activation between them: out(activation(in(x))).
// The first projects the model dimension, which is the last of `x`, to `d_ff`;
// the second projects it back.
//
//   // [batch, length, d_model] -> [batch, length, d_model]
//   x = x + nn::FeedForward(nn::LayerNorm(x, d_model), d_ff, Gelu);
//
// Records kInvalidArgument in the graph if `x` is a scalar or not a float, if
// `d_ff` is negative or is a dimension of `x` other than the last, or if
// dropout is outside [0, 1). Returns an empty Tensor if `x` is empty.
Tensor FeedForward(
    Tensor x, Dimension d_ff, Activation activation,
    FeedForwardOptions options = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LAYERS_FEED_FORWARD_H_
