// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_ACTIVATIONS_H_
#define NN_LAYERS_ACTIVATIONS_H_

#include <functional>
#include <source_location>

#include "mtf/tensor.h"
#include "ops/elementwise.h"

namespace mtf::nn {

// The activation of a layer: a function of ops/elementwise.h by its name, such
// as Gelu, Relu or Swish, or a function or lambda of the user that returns a
// tensor of the same shape and float dtype. Null means no activation. Errors
// are those of the operations that the function calls; layers do not check its
// result.
//
//   Tensor y = nn::FeedForward(x, d_ff, Gelu);
//   Tensor z = nn::FeedForward(x, d_ff, [slope](Tensor h) {
//     return Maximum(h, slope * h);
//   });
using Activation = std::function<Tensor(Tensor x)>;

// x * Phi(x), where Phi is the distribution function of the standard normal
// distribution: the unit of Hendrycks and Gimpel (2016) as BERT and ViT compute
// it. Gelu is its tanh approximation, from which it differs by up to 5e-4.
//
//   Tensor y = nn::FeedForward(x, d_ff, nn::ExactGelu);
//
// Computed in f32, to 4e-7 of max(1, |x|). Records kInvalidArgument in the
// graph if `x` is not a float. Returns an empty Tensor if `x` is empty.
Tensor ExactGelu(
    Tensor x, std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LAYERS_ACTIVATIONS_H_
