// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_SLICE_H_
#define OPS_SLICE_H_

#include <cstdint>
#include <source_location>

#include "absl/strings/string_view.h"
#include "mtf/tensor.h"

namespace mtf {

// Elements [begin, begin + size) of `x` along its dimension `dim`, which keeps
// its name and becomes `size` long. Any dtype. The gradient is padded with
// zeros.
//
//   Tensor first_half = Slice(x, "length", 0, 64);
//
// kInvalidArgument, as the graph's first error (Graph::status(),
// Session::Create), for an x without `dim`, a range that leaves it, and a
// negative size, but not for 0. An empty `x` gives an empty Tensor.
Tensor Slice(Tensor x, absl::string_view dim, int64_t begin, int64_t size,
             std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_SLICE_H_
