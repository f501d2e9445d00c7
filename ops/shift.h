// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_SHIFT_H_
#define OPS_SHIFT_H_

#include <cstdint>
#include <source_location>

#include "absl/strings/string_view.h"
#include "mtf/tensor.h"

namespace mtf {

// Element i of the result along `dim` is element i - `offset` of `x`. What
// comes in from outside is zero, or, with `wrap`, the other end. Any offset,
// also a negative one or one beyond the size. The shape and dtype, any one,
// stay; the gradient is shifted back.
//
//   Tensor previous = Shift(tokens, "length", 1, false);
//
// kInvalidArgument, as the graph's first error (Graph::status(),
// Session::Create), for an x without `dim`. An empty `x` gives an empty Tensor.
Tensor Shift(Tensor x, absl::string_view dim, int64_t offset, bool wrap,
             std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_SHIFT_H_
