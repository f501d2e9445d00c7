// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_ONE_HOT_H_
#define OPS_ONE_HOT_H_

#include <source_location>

#include "mtf/dimension.h"
#include "mtf/dtype.h"
#include "mtf/graph.h"
#include "mtf/tensor.h"

namespace mtf {

// One-hot encoding along the new dimension `dim`: 1 at the position given by
// each integer of `indices`, 0 elsewhere; all 0 if the integer is outside
// [0, dim.size). The result has the dimensions of `indices`, then `dim`, and
// any `dtype`. It has no gradient.
//
//   Tensor labels = OneHot(targets, vocab);  // [batch] -> [batch, vocab]
//
// Records kInvalidArgument in the graph if `indices` are not i32 or i64 or
// already have `dim`, or if Shape::Validate rejects the result. Returns an
// empty Tensor if `indices` are empty.
Tensor OneHot(Tensor indices, Dimension dim, DType dtype = kFloat32,
              std::source_location location = std::source_location::current());

// The numbers 0, 1, ..., dim.size - 1 along `dim`, in a float or integer dtype.
//
//   Tensor position = Range(graph, length);  // [length]
//
// Records kInvalidArgument in the graph if `dtype` is bool or cannot represent
// all of the numbers (bf16 beyond 256, f16 beyond 2048, f32 beyond 2^24, i32
// beyond 2^31 - 1), or if Shape::Validate rejects `dim`.
Tensor Range(Graph& graph, Dimension dim, DType dtype = kInt32,
             std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_ONE_HOT_H_
