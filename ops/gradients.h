// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_GRADIENTS_H_
#define OPS_GRADIENTS_H_

#include <source_location>
#include <vector>

#include "mtf/tensor.h"

namespace mtf {

// The gradients of the float tensor `y` with respect to each of `xs`, each of
// the shape of its x and of its dtype, or of that which a variable was given
// for gradients: sum over the elements of `y` of `dy` times the
// derivative. Without `dy`, which has the dimensions and dtype of `y`, it is
// ones. An invalid Tensor comes back for an x that `y` does not depend on
// through float tensors.
//
//   std::vector<Tensor> g = Gradients(loss, {w1, w2});
//
// They are made of ordinary operations in the same graph, so they have
// gradients themselves. Each is named after the operation it is the gradient
// of, "layer_0/einsum_grad", and keeps its line and its section of the layout.
//
// kInvalidArgument, as the graph's first error (Graph::status(),
// Session::Create), for a `y` that is no float, a `dy` of other dimensions or
// another dtype, and an x or `dy` of another graph. An empty `y` gives empty
// Tensors.
std::vector<Tensor> Gradients(
    Tensor y, std::vector<Tensor> xs, Tensor dy = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_GRADIENTS_H_
