// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_CUSTOM_GRADIENT_H_
#define OPS_CUSTOM_GRADIENT_H_

#include <functional>
#include <source_location>
#include <vector>

#include "mtf/tensor.h"

namespace mtf {

// The gradients of inputs, given those of outputs. An empty Tensor is no
// gradient.
using GradientFunction =
    std::function<std::vector<Tensor>(const std::vector<Tensor>& of_outputs)>;

// Returns `outputs` with a gradient that the caller defines: Gradients passes
// to each of `inputs` what `gradient` returns for it, and nothing to what the
// outputs are computed from. `of_outputs` has the gradient of each output,
// which is zero if nothing depends on the output. The function may read inputs,
// outputs and other tensors that the caller captures. The graph keeps a copy of
// it and calls it when gradients are built: capture by value. What it returns
// has gradients itself. The result has as many elements as `outputs`.
//
//   // Rounds, with the gradient of the identity (straight-through estimator).
//   Tensor RoundStraightThrough(Tensor x) {
//     return CustomGradient({Floor(x + 0.5)}, {x},
//                           [](const auto& dy) { return dy; })[0];
//   }
//
//   // The identity, with gradients clipped to [-1, 1].
//   Tensor ClipGradient(Tensor x) {
//     return CustomGradient({x}, {x}, [](const std::vector<Tensor>& dy) {
//       return std::vector<Tensor>{Minimum(Maximum(dy[0], -1.0), 1.0)};
//     })[0];
//   }
//
// Records kInvalidArgument in the graph if there is no output; if a tensor is
// empty or belongs to another graph; and, when gradients are built, if
// `gradient` does not return one tensor per input, or one whose dimensions are
// not those of the input, or that is not a float. Returns empty Tensors if all
// outputs and inputs are empty.
std::vector<Tensor> CustomGradient(
    const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
    GradientFunction gradient,
    std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_CUSTOM_GRADIENT_H_
