// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_CONVOLUTION_H_
#define NN_LAYERS_CONVOLUTION_H_

#include <cstdint>
#include <map>
#include <source_location>
#include <string>

#include "mtf/dimension.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"
#include "nn/layers/activations.h"
#include "nn/layers/initializers.h"
#include "ops/windows.h"

namespace mtf::nn {

struct ConvolutionOptions {
  // Stride, dilation and padding along every spatial dimension, by default as
  // many elements as before divided by the stride. `.fill` has no effect.
  WindowOptions window = {};
  // By spatial dimension: replaces `window`.
  std::map<std::string, WindowOptions> windows = {};
  // Each of as many parts of the output channels reads its own part of the
  // input channels. As many groups as input channels: a depthwise convolution.
  int64_t groups = 1;
  bool bias = true;
  Activation activation = nullptr;
  // Initial weights are normal with variance init_scale / fan_in, where fan_in
  // is the number of elements that are summed (He et al., 2015, with 2 for
  // Relu).
  double init_scale = 1.0;
  // Used instead of `init_scale` if not null (nn/layers/initializers.h). The
  // fan-in is window * input channels of a group, the fan-out window * output
  // channels, as in Glorot and Bengio, 2010.
  Initializer init = nullptr;
  std::string name = "convolution";
};

// A convolution layer over the dimensions of `kernel`, which has the size of
// the windows in each: one, two or three for sequences, images and volumes.
// Convolves `in`, the input channels, to `out`, adds a bias [out] and applies
// the activation.
//
//   // Conv2d(64, 128, kernel_size=3, padding=1) of PyTorch:
//   // [batch, height, width, in] -> [batch, height, width, out]
//   Tensor y = nn::Convolution(x, {{"height", 3}, {"width", 3}}, in, out,
//                              {.activation = Relu});
//   // Conv1d(64, 128, kernel_size=4, stride=2)
//   Tensor z = nn::Convolution(
//       s, {{"length", 4}}, in, out,
//       {.window = {.stride = 2, .padding = WindowPadding::kValid}});
//
// The kernel is a parameter [kernel_height, kernel_width, in, out]. The result
// has the dimensions of `x` without `in`, in their order, then `out`. If `in`
// and `out` have one name, the kernel calls the input side "<name>_in". With
// groups, the kernel has the dimensions "<in>_in_group", `out` with the number
// of groups as its size, and "<out>_out_of_group" in place of `in` and `out`: a
// layout that shards `out` shards the groups. A layout may shard any dimension
// of `x` and `out`; neighbours exchange halos of sharded spatial dimensions.
// The dtype is the activation dtype of the PrecisionScope, by default that of
// `x`.
//
// Records kInvalidArgument in the graph if `x` is not a float or lacks `in` or
// a spatial dimension, or has `out` or a dimension of the kernel already; if
// `in` or `out` does not divide by the groups; if .windows has a dimension that
// the kernel lacks; if init_scale is negative or not finite, or given together
// with init; and for the errors of mtf::Convolution(). Returns an empty Tensor
// if `x` is empty.
Tensor Convolution(
    Tensor x, const Shape& kernel, const Dimension& in, const Dimension& out,
    const ConvolutionOptions& options = {},
    std::source_location location = std::source_location::current());

// A depthwise convolution of every channel, then a linear layer over channels,
// the separable convolution of MobileNets (Howard et al., 2017): fewer
// parameters and operations than Convolution. Bias and activation follow the
// linear layer. Both kernels have init_scale or init: the fan-in of the first
// is the window, its fan-out window * channels. `options.groups` must be 1.
//
//   Tensor y = nn::SeparableConvolution(x, {{"height", 3}, {"width", 3}}, in,
//                                       out);
Tensor SeparableConvolution(
    Tensor x, const Shape& kernel, const Dimension& in, const Dimension& out,
    const ConvolutionOptions& options = {.name = "separable_convolution"},
    std::source_location location = std::source_location::current());

// The transpose of a convolution, which makes spatial dimensions larger
// (mtf::TransposedConvolution), with a bias and an activation. `sizes` are
// those of spatial dimensions in the result; see there for the default.
// `options.groups` must be 1.
//
//   // ConvTranspose2d(64, 32, kernel_size=2, stride=2): twice the resolution
//   Tensor y = nn::TransposedConvolution(x, {{"height", 2}, {"width", 2}}, in,
//                                        out, {}, {.window = {.stride = 2}});
Tensor TransposedConvolution(
    Tensor x, const Shape& kernel, const Dimension& in, const Dimension& out,
    const Shape& sizes = {},
    const ConvolutionOptions& options = {.name = "transposed_convolution"},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LAYERS_CONVOLUTION_H_
