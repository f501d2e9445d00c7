// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_SCAN_H_
#define OPS_SCAN_H_

#include <source_location>

#include "absl/strings/string_view.h"
#include "mtf/tensor.h"

namespace mtf {

// How a scan goes along its dimension.
struct ScanOptions {
  bool exclusive = false;  // each place leaves itself out
  bool reverse = false;    // from the last place down
};

// At each place along `dim`, the sum of the elements up to it. The shape and
// the dtype, float or integer, stay; half floats are summed in f32 and integers
// wrap around. An exclusive sum starts at 0.
//
//   // The place of each token among those of its expert: 0, 1, ...
//   Tensor position = CumulativeSum(chosen, "length", {.exclusive = true});
//
// Any layout: where `dim` is cut, the devices exchange a total for each of its
// shards. The gradient is the sum from the other end.
//
// kInvalidArgument, as the graph's first error (Graph::status(),
// Session::Create), for an x without `dim` or of bools. An empty `x` gives an
// empty Tensor.
Tensor CumulativeSum(
    Tensor x, absl::string_view dim, ScanOptions options = {},
    std::source_location location = std::source_location::current());

// The greatest (least) of the elements up to each place; a NaN wins. An
// exclusive one starts with the lowest (highest) value of the dtype, for floats
// an infinity. The gradient of a place goes to the element that it shows, the
// one met first of equal ones. Otherwise as CumulativeSum.
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
