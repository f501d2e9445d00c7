// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_LAYER_NORM_H_
#define NN_LAYERS_LAYER_NORM_H_

#include <source_location>
#include <string>

#include "mtf/dimension.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf::nn {

struct LayerNormOptions {
  double epsilon = 1e-5;
  bool scale = true;  // multiply by a parameter [dim], initially 1
  bool bias = true;   // add a parameter [dim], initially 0
  // Dimensions of `x` with parameters of their own for each element, such as
  // the members of an ensemble. They come first in the shapes.
  Shape each = Shape();
  std::string name = "layer_norm";
};

// Layer normalization over `dim` (Ba, Kiros and Hinton, 2016):
//
//   (x - mean) / sqrt(variance + epsilon) * scale + bias
//
//   Tensor y = nn::LayerNorm(x, d_model);  // same shape as x
//
// Computed in f32. The variance is the mean of (x - mean)^2, so a large mean
// loses no precision. The dtype of the result is the activation dtype of the
// PrecisionScope, by default the dtype of `x`.
//
// Records kInvalidArgument in the graph if `x` is not a float, lacks `dim` or a
// dimension of `each` or has it in another size, or if epsilon is not positive
// and finite in f32. Returns an empty Tensor if `x` is empty.
Tensor LayerNorm(
    Tensor x, Dimension dim, LayerNormOptions options = {},
    std::source_location location = std::source_location::current());

struct RmsNormOptions {
  double epsilon = 1e-6;
  bool scale = true;     // multiply by a parameter [dim], initially 1
  Shape each = Shape();  // as above
  std::string name = "rms_norm";
};

// Root mean square normalization over `dim` (Zhang and Sennrich, 2019):
//
//   x / sqrt(mean(x^2) + epsilon) * scale
//
//   Tensor y = nn::RmsNorm(x, d_model);  // same shape as x
//
// Computed in f32. The dtype of the result and errors are those of LayerNorm.
Tensor RmsNorm(Tensor x, Dimension dim, RmsNormOptions options = {},
               std::source_location location = std::source_location::current());

struct ScaleNormOptions {
  double epsilon = 1e-5;
  Shape each = Shape();  // as above
  std::string name = "scale_norm";
};

// Normalization to a length that is one parameter (Nguyen and Salazar, 2019),
// initially sqrt(size of dim):
//
//   scale * x / sqrt(sum(x^2) + epsilon)
//
//   Tensor y = nn::ScaleNorm(x, d_model);  // same shape as x
//
// Computed in f32. The dtype of the result and errors are those of LayerNorm.
Tensor ScaleNorm(
    Tensor x, Dimension dim, ScaleNormOptions options = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LAYERS_LAYER_NORM_H_
