// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_ACTIVATIONS_H_
#define NN_LAYERS_ACTIVATIONS_H_

#include <functional>

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

}  // namespace mtf::nn

#endif  // NN_LAYERS_ACTIVATIONS_H_
