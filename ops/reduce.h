// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_REDUCE_H_
#define OPS_REDUCE_H_

#include <source_location>

#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf {

// Reductions over every dimension of `x` that `output` leaves out. `output` is
// a subset of the dimensions of `x`, in any order. The dtype does not change.
//
//   Tensor total = ReduceSum(loss, {});            // to a scalar
//   Tensor per_row = ReduceMax(logits, {batch});   // [batch, vocab] -> [batch]
//
// Record kInvalidArgument in the graph if `output` has a dimension that `x`
// lacks or has in another size, or a dimension twice, or if the function does
// not accept the dtype. Return an empty Tensor if `x` is empty.

// The sum, of float or integer. 0 over no elements.
Tensor ReduceSum(
    Tensor x, Shape output,
    std::source_location location = std::source_location::current());

// The mean, of float only, computed in f32. NaN over no elements.
Tensor ReduceMean(
    Tensor x, Shape output,
    std::source_location location = std::source_location::current());

// The maximum and minimum, of float or integer; NaN if any element is NaN. The
// gradient is divided equally between equal extremes. Over no elements: the
// lowest (highest) value of the dtype, which is an infinity for floats.
Tensor ReduceMax(
    Tensor x, Shape output,
    std::source_location location = std::source_location::current());
Tensor ReduceMin(
    Tensor x, Shape output,
    std::source_location location = std::source_location::current());

// log(sum(exp(x))), of float only, computed in f32 without overflow. If every
// element is -infinity, so is the result, and the gradient is 0.
Tensor ReduceLogSumExp(
    Tensor x, Shape output,
    std::source_location location = std::source_location::current());

// Whether all (any) elements are true, of bool only. Over no elements: true
// (false). Have no gradient.
//
//   Tensor finite = ReduceAll(Less(Abs(x), 1e30), {});
Tensor ReduceAll(
    Tensor x, Shape output,
    std::source_location location = std::source_location::current());
Tensor ReduceAny(
    Tensor x, Shape output,
    std::source_location location = std::source_location::current());

// The element with index 0 along each dimension that `output` leaves out, of
// any dtype. Records kInvalidArgument in the graph if such a dimension has no
// element. The gradient of the other elements is 0.
Tensor ReduceFirst(
    Tensor x, Shape output,
    std::source_location location = std::source_location::current());

// The same functions by the dimensions that they reduce, where those above take
// the dimensions that they keep: the result has the dimensions of `x` without
// `dims`, in their order.
//
//   Tensor energy = SumOver(Square(x), {io});  // [batch, io] -> [batch]
//
// Record kInvalidArgument in the graph if `x` lacks a dimension of `dims` or
// has it in another size.
Tensor SumOver(Tensor x, Shape dims,
               std::source_location location = std::source_location::current());
Tensor MeanOver(
    Tensor x, Shape dims,
    std::source_location location = std::source_location::current());
Tensor MaxOver(Tensor x, Shape dims,
               std::source_location location = std::source_location::current());
Tensor MinOver(Tensor x, Shape dims,
               std::source_location location = std::source_location::current());
Tensor LogSumExpOver(
    Tensor x, Shape dims,
    std::source_location location = std::source_location::current());

Tensor AllOver(Tensor x, Shape dims,
               std::source_location location = std::source_location::current());
Tensor AnyOver(Tensor x, Shape dims,
               std::source_location location = std::source_location::current());
Tensor FirstOver(
    Tensor x, Shape dims,
    std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_REDUCE_H_
