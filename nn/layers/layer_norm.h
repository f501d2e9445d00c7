// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_LAYER_NORM_H_
#define NN_LAYERS_LAYER_NORM_H_

#include <source_location>
#include <string>

#include "mtf/dimension.h"
#include "mtf/tensor.h"

namespace mtf::nn {

struct LayerNormOptions {
  double epsilon = 1e-5;
  bool scale = true;  // a factor [dim] that starts as ones
  bool bias = true;   // a summand [dim] that starts as zeros
  std::string name = "layer_norm";
};

// Layer normalisation over `dim` (Ba, Kiros and Hinton, 2016):
//
//   (x - mean) / sqrt(variance + epsilon) * scale + bias
//
//   Tensor y = nn::LayerNorm(x, d_model);  // same shape as x
//
// The variance is the mean square of what is left after the mean is taken off,
// in f32 whatever the dtype of `x`, so a large mean does no harm. The result is
// of the activations' dtype of the precision, by default that of `x`.
//
// kInvalidArgument, as the graph's first error (Graph::status(),
// Session::Create), for an x that is no float, or that lacks `dim` or has it in
// another size, and an epsilon that is not positive and finite in f32. An empty
// `x` gives an empty Tensor.
Tensor LayerNorm(
    Tensor x, Dimension dim, LayerNormOptions options = {},
    std::source_location location = std::source_location::current());

struct RmsNormOptions {
  double epsilon = 1e-6;
  bool scale = true;  // a factor [dim] that starts as ones
  std::string name = "rms_norm";
};

// Root mean square normalisation over `dim` (Zhang and Sennrich, 2019):
//
//   x / sqrt(mean(x^2) + epsilon) * scale
//
//   Tensor y = nn::RmsNorm(x, d_model);  // same shape as x
//
// In f32 whatever the dtype of `x`. Errors are those of LayerNorm.
Tensor RmsNorm(Tensor x, Dimension dim, RmsNormOptions options = {},
               std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LAYERS_LAYER_NORM_H_
