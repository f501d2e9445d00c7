// SPDX-License-Identifier: Apache-2.0
#ifndef NN_SOFTMAX_H_
#define NN_SOFTMAX_H_

#include <source_location>

#include "mtf/dimension.h"
#include "mtf/tensor.h"

namespace mtf::nn {

// exp(x) divided by its sum over `dim`, without overflow: the maximum is
// subtracted first. Where every element along `dim` is -infinity the result and
// the gradient are 0. Computed in f32, returned in the float dtype of `x`.
//
//   Tensor weights = nn::Softmax(logits, memory_length);
//
// Only reductions and elementwise work, so `dim` may be sharded.
Tensor Softmax(Tensor x, Dimension dim,
               std::source_location location = std::source_location::current());

// The logarithm of Softmax, to full precision also where Softmax is tiny.
Tensor LogSoftmax(
    Tensor x, Dimension dim,
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_SOFTMAX_H_
