// SPDX-License-Identifier: Apache-2.0
//
// Convolutions along a sequence with few weights, which are normalized by a
// softmax (Wu et al., 2019): alternatives to attention whose cost is linear in
// the length. All channels of a head share a filter.
//
//   y[i, c] = sum over t of softmax over t of w[h(c), t] * x[i + t - before, c]
//
// where h(c) is the head of channel c: the d_model channels are divided into
// heads of consecutive channels, as in the paper. (Mesh TensorFlow gives
// channel c the filter c modulo their number.) Where the length is sharded,
// neighbours send the positions that a filter reads.
#ifndef NN_LAYERS_LIGHT_CONVOLUTION_H_
#define NN_LAYERS_LIGHT_CONVOLUTION_H_

#include <cstdint>
#include <source_location>
#include <string>

#include "mtf/dimension.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf::nn {

struct LightConvolutionOptions {
  int64_t taps = 3;  // positions of a filter
  // Whether a filter reads the position and taps - 1 before it, as in a
  // decoder; otherwise as many before as after it, or one more after it.
  bool causal = false;
  double dropout = 0;  // of the normalized weights (DropConnect)
  // Dimensions of `x` with parameters of their own for each element.
  Shape each = Shape();
  std::string name = "light_convolution";
};

// A convolution with a parameter "filter" [heads, taps], initially normal with
// variance 1 / taps.
//
//   // [batch, length, d_model] -> [batch, length, d_model]
//   Tensor y = nn::LightweightConvolution(x, length, {"heads", 8},
//                                         {.taps = 7, .causal = true});
//
// The last dimension of `x` is the model dimension. Records kInvalidArgument in
// the graph if `x` is not a float or lacks `length`; if the model dimension is
// not a multiple of `heads`, or `x` has the dimension `heads`; if there is less
// than one tap; or if dropout is outside [0, 1). Returns an empty Tensor if `x`
// is empty.
Tensor LightweightConvolution(
    Tensor x, Dimension length, Dimension heads,
    LightConvolutionOptions options = {},
    std::source_location location = std::source_location::current());

// A convolution whose filters are a linear function "filter"/kernel [d_model,
// heads, taps] of the position in the middle, or of the last one if it is
// causal: each position has filters of its own. As above.
//
//   Tensor y = nn::DynamicConvolution(x, length, {"heads", 8}, {.taps = 7});
Tensor DynamicConvolution(
    Tensor x, Dimension length, Dimension heads,
    LightConvolutionOptions options = {.name = "dynamic_convolution"},
    std::source_location location = std::source_location::current());

// The block of the paper around either: a linear layer with a gate (GLU), the
// convolution, and a linear layer.
//
//   x = x + nn::ConvolutionBlock(nn::LayerNorm(x, d_model), length, heads,
//                                true, {.taps = 7});
Tensor ConvolutionBlock(
    Tensor x, Dimension length, Dimension heads, bool dynamic,
    LightConvolutionOptions options = {.name = "convolution_block"},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LAYERS_LIGHT_CONVOLUTION_H_
