// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_PAD_H_
#define OPS_PAD_H_

#include <cstdint>
#include <source_location>

#include "absl/strings/string_view.h"
#include "mtf/tensor.h"

namespace mtf {

// `x` with `before` and `after` elements equal to `value` added at the ends of
// its dimension `dim`. Both counts are at least 0, and the dtype can hold
// `value`; otherwise the graph records kInvalidArgument.
//
//   Tensor y = Pad(x, "length", 1, 0);  // room for a start token
Tensor Pad(Tensor x, absl::string_view dim, int64_t before, int64_t after,
           double value = 0,
           std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_PAD_H_
