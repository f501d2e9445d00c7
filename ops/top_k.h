// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_TOP_K_H_
#define OPS_TOP_K_H_

#include <source_location>

#include "absl/strings/string_view.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf {

struct TopKResult {
  Tensor values;   // of the dtype of x
  Tensor indices;  // i32: their places along the dimension
};

// The k.size greatest elements of `x` along `dim`, the greatest first, and
// where they stand. Both have the other dimensions of `x`, then `k`, a name
// that `x` does not have. Float or integer.
//
//   // The two best experts of each token: [batch, expert] -> [batch, choice]
//   auto [gate, expert] = TopK(scores, "expert", {"choice", 2});
//
// Of equal elements the one of the lower place comes first. A NaN stands above
// all numbers and equals any NaN; 0 equals -0. That is the order of a sort by
// NumPy or JAX, from its end.
//
// Any layout, with the same bits: where `dim` is cut, the devices exchange the
// best of each of its shards. Gradients flow through the values, to where they
// came from.
//
// kInvalidArgument, as the graph's first error (Graph::status(),
// Session::Create), for an x without `dim`, with a dimension called as `k`, or
// of bools, for a k.size below 1 or above the size of `dim`, and for a `dim` of
// more places than an i32 counts. An empty `x` gives two empty Tensors.
TopKResult TopK(
    Tensor x, absl::string_view dim, Dimension k,
    std::source_location location = std::source_location::current());

// The place of the greatest element along `dim` as i32: that of TopK with k of
// 1, without the dimension. Errors are those of TopK; a `dim` of size 0 is one.
//
//   Tensor guess = ArgMax(logits, "vocab");  // [batch, vocab] -> [batch]
Tensor ArgMax(Tensor x, absl::string_view dim,
              std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_TOP_K_H_
