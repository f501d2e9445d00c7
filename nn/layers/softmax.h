// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_SOFTMAX_H_
#define NN_LAYERS_SOFTMAX_H_

#include <source_location>

#include "mtf/dimension.h"
#include "mtf/tensor.h"

namespace mtf::nn {

// exp(x) divided by its sum over `dim`, without overflow: the maximum is
// subtracted first. Where every element along `dim` is -infinity the result and
// the gradient are 0. Computed in f32, returned in the shape and float dtype of
// `x`.
//
//   exp(x - max) / sum(exp(x - max))
//
//   Tensor weights = nn::Softmax(logits, memory_length);
//
// Only reductions and elementwise work, so `dim` may be sharded.
//
// kInvalidArgument, as the graph's first error (Graph::status(),
// Session::Create), for an x that is no float, or that lacks `dim` or has it in
// another size. An empty `x` gives an empty Tensor.
Tensor Softmax(Tensor x, Dimension dim,
               std::source_location location = std::source_location::current());

// The logarithm of Softmax, to full precision also where Softmax is tiny, with
// the same shapes and errors.
//
//   x - max - log(sum(exp(x - max)))
Tensor LogSoftmax(
    Tensor x, Dimension dim,
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LAYERS_SOFTMAX_H_
