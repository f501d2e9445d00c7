// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_CONCAT_H_
#define OPS_CONCAT_H_

#include <source_location>
#include <vector>

#include "absl/strings/string_view.h"
#include "mtf/tensor.h"

namespace mtf {

// The tensors one behind the other along `dim`, which all of them have and may
// have in different sizes. Their other dimensions and dtypes are the same, in
// any order; the result has the order of the first.
//
//   // [batch, length:1], [batch, length:64] -> [batch, length:65]
//   Tensor y = Concat({cls, tokens}, "length");
//
// kInvalidArgument, as the graph's first error (Graph::status(),
// Session::Create), for a tensor that lacks `dim`, differs from the first in
// dtype or another dimension, is empty or of another graph. No tensors, or only
// empty ones, give an empty Tensor.
Tensor Concat(std::vector<Tensor> xs, absl::string_view dim,
              std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_CONCAT_H_
