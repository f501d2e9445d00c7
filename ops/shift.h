// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_SHIFT_H_
#define OPS_SHIFT_H_

#include <cstdint>
#include <source_location>

#include "absl/strings/string_view.h"
#include "mtf/tensor.h"

namespace mtf {

// Shifts `x` by `offset` along `dim`: element i of the result is element
// i - offset of `x`. Elements from outside are zero, or with `wrap` those of
// the other end. `offset` may be negative or exceed the size. Keeps the shape
// and the dtype, of any kind. The gradient is shifted back.
//
//   Tensor previous = Shift(tokens, "length", 1, false);
//
// Records kInvalidArgument in the graph if `x` lacks `dim`. Returns an empty
// Tensor if `x` is empty.
Tensor Shift(Tensor x, absl::string_view dim, int64_t offset, bool wrap,
             std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_SHIFT_H_
