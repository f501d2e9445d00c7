// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_PAD_H_
#define OPS_PAD_H_

#include <cstdint>
#include <source_location>

#include "absl/strings/string_view.h"
#include "mtf/tensor.h"

namespace mtf {

// Adds `before` and `after` elements equal to `value` at the ends of `dim`,
// which keeps its name. Any dtype. The gradient is a Slice.
//
//   // Room for a start token: [batch, length:64] -> [batch, length:65]
//   Tensor y = Pad(x, "length", 1, 0);
//
// Records kInvalidArgument in the graph if `x` lacks `dim`, a count is less
// than 0 or greater than 2^60, or the dtype cannot represent `value`. Returns
// an empty Tensor if `x` is empty.
Tensor Pad(Tensor x, absl::string_view dim, int64_t before, int64_t after,
           double value = 0,
           std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_PAD_H_
