// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_ACTIVATIONS_H_
#define NN_LAYERS_ACTIVATIONS_H_

#include "mtf/tensor.h"
#include "ops/elementwise.h"

namespace mtf::nn {

// An elementwise function of ops/elementwise.h, by its bare name: Gelu, Relu,
// Swish, or a function of the user's own, from a float tensor to one of the
// same shape and dtype. Null stands for "none". A layer uses what it returns as
// it comes; its errors are those of the operations it calls.
//
//   Tensor y = nn::FeedForward(x, d_ff, Gelu);
using Activation = Tensor (*)(TensorArg x);

}  // namespace mtf::nn

#endif  // NN_LAYERS_ACTIVATIONS_H_
