// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_PAD_H_
#define OPS_PAD_H_

#include <cstdint>
#include <source_location>

#include "absl/strings/string_view.h"
#include "mtf/tensor.h"

namespace mtf {

// `x` with `before` and `after` elements equal to `value` added at the ends of
// its dimension `dim`, which keeps its name and becomes size + before + after
// long. Any dtype. The gradient is a Slice.
//
//   Tensor y = Pad(x, "length", 1, 0);  // room for a start token
//
// kInvalidArgument, as the graph's first error (Graph::status(),
// Session::Create), for an x without `dim`, a count below 0 or above 2^60, and
// a value that the dtype cannot hold. An empty `x` gives an empty Tensor.
Tensor Pad(Tensor x, absl::string_view dim, int64_t before, int64_t after,
           double value = 0,
           std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_PAD_H_
