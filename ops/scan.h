// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_SCAN_H_
#define OPS_SCAN_H_

#include <source_location>

#include "absl/strings/string_view.h"
#include "mtf/tensor.h"

namespace mtf {

struct ScanOptions {
  bool exclusive = false;  // element i reduces elements 0..i-1, not 0..i
  bool reverse = false;    // from the last element to the first
};

// Prefix sums along `dim`: element i of the result is the sum of elements 0..i.
// Keeps the shape and the dtype, float or integer. Sums of 16-bit floats
// accumulate in f32; integers wrap around. An exclusive sum starts at 0.
//
//   // The rank of each token among the tokens of its expert: 0, 1, ...
//   Tensor rank = CumulativeSum(chosen, "length", {.exclusive = true});
//
// If the layout shards `dim`, the devices all_gather one total per shard. The
// gradient is a CumulativeSum in the other direction.
//
// Records kInvalidArgument in the graph if `x` lacks `dim` or is bool. Returns
// an empty Tensor if `x` is empty.
Tensor CumulativeSum(
    Tensor x, absl::string_view dim, ScanOptions options = {},
    std::source_location location = std::source_location::current());

// Prefix maxima (minima) along `dim`; NaN from the first NaN on. An exclusive
// one starts with the lowest (highest) value of the dtype, which is an infinity
// for floats. The gradient of an element of the result goes to the element of
// `x` that it equals, the first of several in the direction of the scan.
// Everything else is as for CumulativeSum.
//
//   Tensor best_so_far = CumulativeMax(score, "step");
Tensor CumulativeMax(
    Tensor x, absl::string_view dim, ScanOptions options = {},
    std::source_location location = std::source_location::current());
Tensor CumulativeMin(
    Tensor x, absl::string_view dim, ScanOptions options = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_SCAN_H_
