// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_GRADIENTS_H_
#define OPS_GRADIENTS_H_

#include <source_location>
#include <vector>

#include "mtf/tensor.h"

namespace mtf {

// The gradients of `y` with respect to each of `xs`: the sum over the elements
// of `y` of `dy` times the derivative. `dy` has the dimensions and dtype of
// `y`; if it is empty, it is all ones.
//
//   std::vector<Tensor> g = Gradients(loss, {w1, w2});
//
// Each gradient has the shape of its x, and the dtype of its x or, for a
// variable with a gradient dtype, that dtype. If `y` does not depend on an x
// through float tensors, the gradient is an empty Tensor.
//
// Gradients consist of operations in the same graph, so they have gradients
// themselves. Each operation is named after its forward operation,
// "layer_0/einsum_grad", and takes the call site and layout section of it.
//
// Records kInvalidArgument in the graph if `y` is not a float, `dy` has other
// dimensions or another dtype, or an x or `dy` belongs to another graph.
// Returns empty Tensors if `y` is empty.
std::vector<Tensor> Gradients(
    Tensor y, std::vector<Tensor> xs, Tensor dy = {},
    std::source_location location = std::source_location::current());

namespace internal {

// As Gradients(), but only through the operations of the graph from number
// `first_operation` on: the gradient of an x before these leaves out what
// depends on it through other operations before them.
std::vector<Tensor> GradientsWithin(
    Tensor y, std::vector<Tensor> xs, Tensor dy, int first_operation,
    std::source_location location = std::source_location::current());

}  // namespace internal
}  // namespace mtf

#endif  // OPS_GRADIENTS_H_
