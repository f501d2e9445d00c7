// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_SORT_H_
#define OPS_SORT_H_

#include <cstdint>
#include <source_location>

#include "absl/strings/string_view.h"
#include "mtf/tensor.h"

namespace mtf {

struct SortOptions {
  bool descending = false;
};

// The elements of `x` in order along `dim`, ascending unless the options say
// otherwise. Keeps the shape and the dtype, float or integer.
//
//   Tensor by_length = Sort(lengths, "batch");
//
// NaN is greater than every number: it comes last in ascending order, as in
// NumPy and JAX, and first in descending order. 0 equals -0. The gradient of an
// element goes to where the element was.
//
// Sorting is a TopK of all elements: if the layout shards `dim`, it is
// gathered.
//
// Records kInvalidArgument in the graph if `x` lacks `dim` or is bool, or if
// `dim` has no element or more than an i32 can index. Returns an empty Tensor
// if `x` is empty.
Tensor Sort(Tensor x, absl::string_view dim, SortOptions options = {},
            std::source_location location = std::source_location::current());

// The indices along `dim` of the elements that Sort returns, as i32, in the
// shape of `x`. Stable: among equal elements, in either order, the lower index
// comes first. Everything else is as for Sort.
//
//   Tensor order = ArgSort(scores, "candidate", {.descending = true});
Tensor ArgSort(Tensor x, absl::string_view dim, SortOptions options = {},
               std::source_location location = std::source_location::current());

// The element of rank `n` along `dim`, which the result does not have: 0 is the
// greatest (least) element, and equal elements count one by one.
//
//   Tensor median = NthSmallest(x, "sample", sample.size / 2);
//
// Errors are those of Sort, and kInvalidArgument if `n` is outside [0, size of
// `dim`). If the layout shards `dim`, n + 1 elements of each shard are sent.
Tensor NthLargest(
    Tensor x, absl::string_view dim, int64_t n,
    std::source_location location = std::source_location::current());
Tensor NthSmallest(
    Tensor x, absl::string_view dim, int64_t n,
    std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_SORT_H_
