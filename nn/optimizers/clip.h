// SPDX-License-Identifier: Apache-2.0
#ifndef NN_OPTIMIZERS_CLIP_H_
#define NN_OPTIMIZERS_CLIP_H_

#include <source_location>
#include <vector>

#include "mtf/tensor.h"

namespace mtf::nn {

struct ClippedGradients {
  std::vector<Tensor> gradients;  // in the order of the arguments
  Tensor norm;                    // before clipping, scalar f32
};

// Clips gradients by their global norm (Pascanu et al., 2013): multiplies all
// of them by max_norm / max(norm, max_norm), where norm is the square root of
// the sum of the squares of all elements, computed in f32.
//
//   nn::ClippedGradients clipped = nn::ClipByGlobalNorm(gradients, 1.0);
//
// Each gradient keeps its shape and dtype. Empty tensors stay empty; if all are
// empty, so is the norm. The operations belong to the [optimizer] section of
// the layout. Optimizers call this if `.max_gradient_norm` is set.
//
// Records kInvalidArgument in the graph if `max_norm` is not positive and
// finite in f32, or if a gradient is not a float or belongs to another graph.
ClippedGradients ClipByGlobalNorm(
    std::vector<Tensor> gradients, double max_norm,
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_OPTIMIZERS_CLIP_H_
