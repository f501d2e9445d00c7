// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_SOFTMAX_H_
#define NN_LAYERS_SOFTMAX_H_

#include <source_location>

#include "mtf/dimension.h"
#include "mtf/tensor.h"

namespace mtf::nn {

// The softmax of `x` over `dim`:
//
//   exp(x - max) / sum(exp(x - max))
//
//   Tensor weights = nn::Softmax(logits, memory_length);
//
// Computed in f32; keeps the shape and float dtype of `x`. If every element
// along `dim` is -infinity, the result and the gradient are 0. `dim` may be
// sharded: the function consists of reductions and elementwise operations.
//
// Records kInvalidArgument in the graph if `x` is not a float, lacks `dim` or
// has it in another size. Returns an empty Tensor if `x` is empty.
Tensor Softmax(Tensor x, Dimension dim,
               std::source_location location = std::source_location::current());

// The logarithm of Softmax, in full precision even where Softmax underflows.
// Shapes and errors are those of Softmax.
//
//   x - max - log(sum(exp(x - max)))
Tensor LogSoftmax(
    Tensor x, Dimension dim,
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LAYERS_SOFTMAX_H_
