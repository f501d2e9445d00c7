// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_ONE_HOT_H_
#define OPS_ONE_HOT_H_

#include <source_location>

#include "mtf/dimension.h"
#include "mtf/dtype.h"
#include "mtf/graph.h"
#include "mtf/tensor.h"

namespace mtf {

// 1 where the place along the new dimension `dim` equals the integer in
// `indices`, else 0; all 0 for an index outside of `dim`. The result has the
// dimensions of `indices`, then `dim`. Any dtype; nothing flows back.
//
//   Tensor labels = OneHot(targets, vocab);  // [batch] -> [batch, vocab]
//
// kInvalidArgument, as the graph's first error (Graph::status(),
// Session::Create), for indices that are not i32 or i64, or that have `dim`
// already, and a result that Shape::Validate refuses. Empty `indices` give an
// empty Tensor.
Tensor OneHot(Tensor indices, Dimension dim, DType dtype = kFloat32,
              std::source_location location = std::source_location::current());

// 0, 1, ..., dim.size - 1 along `dim`, its only dimension, as a float or
// integer dtype.
//
//   Tensor position = Range(graph, length);  // [length]
//
// kInvalidArgument for a bool, a dtype in which two of the numbers are one
// (bf16 beyond 256, f16 beyond 2048, f32 beyond 2^24, i32 beyond 2^31 - 1) and
// a `dim` that Shape::Validate refuses.
Tensor Range(Graph& graph, Dimension dim, DType dtype = kInt32,
             std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_ONE_HOT_H_
