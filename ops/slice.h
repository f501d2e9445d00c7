// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_SLICE_H_
#define OPS_SLICE_H_

#include <cstdint>
#include <source_location>

#include "absl/strings/string_view.h"
#include "mtf/tensor.h"

namespace mtf {

// Elements [begin, begin + size) of `x` along `dim`, which keeps its name. Any
// dtype. The gradient is padded with zeros.
//
//   Tensor first_half = Slice(x, "length", 0, 64);
//
// Records kInvalidArgument in the graph if `x` lacks `dim`, the range exceeds
// it, or `size` is negative; it may be 0. Returns an empty Tensor if `x` is
// empty.
Tensor Slice(Tensor x, absl::string_view dim, int64_t begin, int64_t size,
             std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_SLICE_H_
