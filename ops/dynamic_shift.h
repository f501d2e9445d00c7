// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_DYNAMIC_SHIFT_H_
#define OPS_DYNAMIC_SHIFT_H_

#include <source_location>

#include "absl/strings/string_view.h"
#include "mtf/tensor.h"

namespace mtf {

// Shifts `x` along `dim` by an offset that a step computes: element i of the
// result is element i - offset of `x`. Elements from outside are zero, or with
// `wrap` those of the other end. `offset` is a scalar i32 or i64, or a tensor
// of them with some of the other dimensions of `x`, such as [batch], which has
// an offset for each of its elements. It may be negative or exceed the size.
//
//   // Aligns the ends of prompts: [batch, length] by [batch]
//   const Tensor by = length.size - lengths;
//   Tensor right = DynamicShift(tokens, "length", by, /*wrap=*/false);
//
// Keeps the shape and the dtype, of any kind. The gradient is shifted back. If
// the layout shards `dim`, it is gathered, because any two shards may have to
// meet; Shift, by an offset that is known before the step, sends only the
// elements that change ranks.
//
// Records kInvalidArgument in the graph if `x` lacks `dim`; if the offset is
// not i32 or i64, or has `dim` or a dimension that `x` lacks; or if one of the
// tensors is empty or belongs to another graph. Returns an empty Tensor if both
// are empty.
Tensor DynamicShift(
    Tensor x, absl::string_view dim, Tensor offset, bool wrap,
    std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_DYNAMIC_SHIFT_H_
