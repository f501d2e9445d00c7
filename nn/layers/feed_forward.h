// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_FEED_FORWARD_H_
#define NN_LAYERS_FEED_FORWARD_H_

#include <source_location>
#include <string>

#include "mtf/dimension.h"
#include "mtf/tensor.h"
#include "nn/layers/activations.h"

namespace mtf::nn {

struct FeedForwardOptions {
  bool bias = false;
  // Multiplies the activation by a second projection, as in SwiGLU (Shazeer,
  // 2020): out(activation(gate(x)) * in(x)).
  bool gated = false;
  double dropout = 0;  // of the hidden layer
  // The dimension of `x`, if it has one of this name, that is "block_length"
  // inside: a layout may cut it in another way there than between the blocks.
  std::string length = "length";
  std::string name = "feed_forward";
};

// Two linear layers with an activation between them: the last dimension of `x`,
// the model dimension, to `d_ff` and back: out(activation(in(x))).
//
//   // [batch, length, d_model] -> [batch, length, d_model]
//   x = x + nn::FeedForward(nn::LayerNorm(x, d_model), d_ff, Gelu);
//
// kInvalidArgument, as the graph's first error (Graph::status(),
// Session::Create), for an x that is a scalar or no float, a `d_ff` that is
// negative or that x has besides its last dimension, and a dropout outside of
// [0, 1). An empty `x` gives an empty Tensor.
Tensor FeedForward(
    Tensor x, Dimension d_ff, Activation activation,
    FeedForwardOptions options = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LAYERS_FEED_FORWARD_H_
