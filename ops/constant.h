// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_CONSTANT_H_
#define OPS_CONSTANT_H_

#include <source_location>
#include <vector>

#include "mtf/dtype.h"
#include "mtf/graph.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf {

// A tensor of one value. A value that `dtype` cannot hold, such as 0.5 in an
// i32, is kInvalidArgument.
Tensor Constant(
    Graph& graph, double value, DType dtype, Shape shape,
    std::source_location location = std::source_location::current());

// A tensor of the `values` in row-major order, one for each element of `shape`.
// It becomes part of the program: feed large data through an Input.
//
//   Tensor w = Constant(graph, {1, 2, 3, 4}, kFloat32, {rows, columns});
Tensor Constant(
    Graph& graph, std::vector<double> values, DType dtype, Shape shape,
    std::source_location location = std::source_location::current());

Tensor Zeros(Graph& graph, DType dtype, Shape shape,
             std::source_location location = std::source_location::current());
Tensor Ones(Graph& graph, DType dtype, Shape shape,
            std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_CONSTANT_H_
