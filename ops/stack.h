// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_STACK_H_
#define OPS_STACK_H_

#include <source_location>
#include <vector>

#include "absl/strings/string_view.h"
#include "mtf/tensor.h"

namespace mtf {

// Stacks tensors of the same dimensions and dtype along the new dimension
// `dim`, which comes first and has one element for each tensor. Index is the
// inverse.
//
//   // two of [batch, d_model] -> [time:2, batch, d_model]
//   Tensor y = Stack({h0, h1}, "time");
//
// The order of dimensions may differ; the result has the order of the first
// tensor. Records kInvalidArgument in the graph if a tensor has `dim` already,
// differs from the first in dtype or a dimension, is empty, or belongs to
// another graph. Returns an empty Tensor if there are no tensors or all are
// empty.
Tensor Stack(std::vector<Tensor> xs, absl::string_view dim,
             std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_STACK_H_
