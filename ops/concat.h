// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_CONCAT_H_
#define OPS_CONCAT_H_

#include <source_location>
#include <vector>

#include "absl/strings/string_view.h"
#include "mtf/tensor.h"

namespace mtf {

// Concatenates tensors along `dim`, in which their sizes may differ. Their
// other dimensions and their dtypes are equal. The order of dimensions may
// differ; the result has the order of the first tensor.
//
//   // [batch, length:1], [batch, length:64] -> [batch, length:65]
//   Tensor y = Concat({cls, tokens}, "length");
//
// Records kInvalidArgument in the graph if a tensor lacks `dim`, differs from
// the first in dtype or in another dimension, is empty, or belongs to another
// graph. Returns an empty Tensor if there are no tensors or all are empty.
Tensor Concat(std::vector<Tensor> xs, absl::string_view dim,
              std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_CONCAT_H_
