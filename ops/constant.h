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

// A tensor of `shape` in which every element is `value`.
//
//   Tensor half = Constant(graph, 0.5, kFloat32, {batch});
//
// Records kInvalidArgument in the graph if an integer or bool `dtype` cannot
// represent `value`, as 0.5 in an i32, or if Shape::Validate rejects `shape`.
Tensor Constant(
    Graph& graph, double value, DType dtype, Shape shape,
    std::source_location location = std::source_location::current());

// As above, without a dtype of its own: as an operand of an elementwise
// function, Einsum, Concat, Stack or Assign, it takes the dtype of the other
// operands, as a number does. So it serves a model of any precision. By itself
// it is f32.
//
//   Tensor y = x * Constant(graph, 0.5);  // of the dtype of x
Tensor Constant(
    Graph& graph, double value, Shape shape = {},
    std::source_location location = std::source_location::current());

// A tensor with the elements `values` in row-major order. They become part of
// the program; feed large data through an Input instead.
//
//   Tensor w = Constant(graph, {1, 2, 3, 4}, kFloat32, {rows, columns});
//
// Errors are those of the overload above. Also records kInvalidArgument if the
// number of values is not the number of elements of `shape`.
Tensor Constant(
    Graph& graph, std::vector<double> values, DType dtype, Shape shape,
    std::source_location location = std::source_location::current());

// As above, without a dtype of its own.
//
//   Tensor y = x * Constant(graph, {0.25, 0.5, 0.25}, {taps});
Tensor Constant(
    Graph& graph, std::vector<double> values, Shape shape,
    std::source_location location = std::source_location::current());

// Constants 0 and 1 of any dtype. Record kInvalidArgument in the graph if
// Shape::Validate rejects `shape`.
Tensor Zeros(Graph& graph, DType dtype, Shape shape,
             std::source_location location = std::source_location::current());
Tensor Ones(Graph& graph, DType dtype, Shape shape,
            std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_CONSTANT_H_
