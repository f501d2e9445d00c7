// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_TOP_K_H_
#define OPS_TOP_K_H_

#include <source_location>

#include "absl/strings/string_view.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf {

struct TopKResult {
  Tensor values;   // in the dtype of x
  Tensor indices;  // i32: their indices along the dimension
};

// The k.size greatest elements of `x` along `dim` in descending order, and
// their indices. Both results have the other dimensions of `x`, then `k`, a
// name that `x` does not have. `x` is float or integer.
//
//   // The two best experts of each token: [batch, expert] -> [batch, choice]
//   auto [gate, expert] = TopK(scores, "expert", {"choice", 2});
//
// Among equal elements the lower index comes first. NaN is greater than every
// number and equal to NaN; 0 equals -0. This is the reverse of the order in
// which NumPy and JAX sort.
//
// Results are bitwise equal under every layout. If the layout shards `dim`, the
// devices all_gather the best elements of each shard and their indices, or
// `dim` itself if that is less. The gradient of a value goes to the element at
// its index.
//
// Records kInvalidArgument in the graph if `x` lacks `dim`, has a dimension
// named like `k`, or is bool; if k.size is less than 1 or greater than the size
// of `dim`; or if the size of `dim` exceeds the range of i32. Returns two empty
// Tensors if `x` is empty.
TopKResult TopK(
    Tensor x, absl::string_view dim, Dimension k,
    std::source_location location = std::source_location::current());

// The k.size least elements in ascending order. NaN comes last; everything else
// is as for TopK.
TopKResult BottomK(
    Tensor x, absl::string_view dim, Dimension k,
    std::source_location location = std::source_location::current());

// The index of the greatest (least) element along `dim`, as i32: the index that
// TopK (BottomK) with k = 1 returns, without the dimension `k`. Errors are
// those of TopK; they include a `dim` of size 0.
//
//   Tensor guess = ArgMax(logits, "vocab");  // [batch, vocab] -> [batch]
Tensor ArgMax(Tensor x, absl::string_view dim,
              std::source_location location = std::source_location::current());
Tensor ArgMin(Tensor x, absl::string_view dim,
              std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_TOP_K_H_
