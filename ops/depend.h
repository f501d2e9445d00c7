// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_DEPEND_H_
#define OPS_DEPEND_H_

#include <source_location>
#include <vector>

#include "mtf/tensor.h"

namespace mtf {

// Returns `x`, for readers that run after all tensors of `after` are computed:
// an order without data. Any shapes and dtypes. A step that computes the result
// computes `after` too, and executes the assignments among them. The gradient
// goes to `x`.
//
//   // The second half of the batch starts when the first is done.
//   Tensor second = Depend(x1, {Layer(x0)});
//
//   // A step that fetches the loss also counts.
//   loss = Depend(loss, {AssignAdd(count, Constant(graph, 1))});
//
// Records kInvalidArgument in the graph if a tensor is empty or belongs to
// another graph. Returns an empty Tensor if all are empty.
Tensor Depend(Tensor x, std::vector<Tensor> after,
              std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_DEPEND_H_
