// SPDX-License-Identifier: Apache-2.0
#ifndef NN_OPTIMIZERS_CLIP_H_
#define NN_OPTIMIZERS_CLIP_H_

#include <source_location>
#include <vector>

#include "mtf/tensor.h"

namespace mtf::nn {

struct ClippedGradients {
  std::vector<Tensor> gradients;  // in the order they came
  Tensor norm;                    // before clipping, scalar f32
};

// Scales all `gradients` by max_norm / max(norm, max_norm), where norm is the
// square root of the sum of all their squares (Pascanu et al., 2013), in f32.
// Each keeps its shape and dtype; empty tensors stay empty, and where all are
// empty so is the norm.
//
//   nn::ClippedGradients clipped = nn::ClipByGlobalNorm(gradients, 1.0);
//
// The optimizers do it themselves given `.max_gradient_norm`. All of it belongs
// to the [optimizer] section of the layout.
//
// kInvalidArgument, as the graph's first error (Graph::status(),
// Session::Create), for a `max_norm` that is not positive and finite in f32 and
// a gradient that is no float or of another graph.
ClippedGradients ClipByGlobalNorm(
    std::vector<Tensor> gradients, double max_norm,
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_OPTIMIZERS_CLIP_H_
