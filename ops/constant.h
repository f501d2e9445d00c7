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

// A tensor of `shape` that is `value` everywhere.
//
//   Tensor half = Constant(graph, 0.5, kFloat32, {batch});
//
// kInvalidArgument, as the graph's first error (Graph::status(),
// Session::Create), for a value that an integer or bool `dtype` cannot hold,
// such as 0.5 in an i32, and a shape that Shape::Validate refuses.
Tensor Constant(
    Graph& graph, double value, DType dtype, Shape shape,
    std::source_location location = std::source_location::current());

// A tensor of the `values` in row-major order, one for each element of `shape`.
// It becomes part of the program: feed large data through an Input.
//
//   Tensor w = Constant(graph, {1, 2, 3, 4}, kFloat32, {rows, columns});
//
// kInvalidArgument as above, and for more or fewer values than elements.
Tensor Constant(
    Graph& graph, std::vector<double> values, DType dtype, Shape shape,
    std::source_location location = std::source_location::current());

// The constants 0 and 1 of `shape`, in any dtype. kInvalidArgument for a shape
// that Shape::Validate refuses.
Tensor Zeros(Graph& graph, DType dtype, Shape shape,
             std::source_location location = std::source_location::current());
Tensor Ones(Graph& graph, DType dtype, Shape shape,
            std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_CONSTANT_H_
