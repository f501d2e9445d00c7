// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_REDUCE_H_
#define OPS_REDUCE_H_

#include <source_location>

#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf {

// Reductions over every dimension of `x` that `output` leaves out. `output`
// lists what remains, in any order: a subset of the dimensions of `x`. The
// dtype stays.
//
//   Tensor total = ReduceSum(loss, {});            // to a scalar
//   Tensor per_row = ReduceMax(logits, {batch});   // [batch, vocab] -> [batch]
//
// kInvalidArgument, as the graph's first error (Graph::status(),
// Session::Create), for an output with a dimension that x lacks or has in
// another size, or one twice, and for a dtype that the function does not take.
// An empty `x` gives an empty Tensor.

// Float or integer. The sum of nothing is 0.
Tensor ReduceSum(
    Tensor x, Shape output,
    std::source_location location = std::source_location::current());

// Float only: the sum over the number of elements, both in f32 whatever the
// dtype. The mean of nothing is NaN.
Tensor ReduceMean(
    Tensor x, Shape output,
    std::source_location location = std::source_location::current());

// Float or integer; a NaN wins. Equal extremes share the gradient equally. The
// extreme of nothing is the lowest (highest) value of the dtype, for floats an
// infinity.
Tensor ReduceMax(
    Tensor x, Shape output,
    std::source_location location = std::source_location::current());
Tensor ReduceMin(
    Tensor x, Shape output,
    std::source_location location = std::source_location::current());

// log(sum(exp(x))), float only, in f32 and without overflow. Where every
// element is -infinity so is the result, and the gradient is 0.
Tensor ReduceLogSumExp(
    Tensor x, Shape output,
    std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_REDUCE_H_
