// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_GATHER_H_
#define OPS_GATHER_H_

#include <source_location>

#include "absl/strings/string_view.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf {

// The rows of `table` along its dimension `dim` that the integers `indices`
// name. The result has the dimensions of `indices`, then the others of `table`;
// a dimension in both is matched, one row of `table` for each of its places.
//
//   // [vocab, d_model] at [batch, length] -> [batch, length, d_model]
//   Tensor x = Gather(embedding, tokens, "vocab");
//
// An index outside [0, size) ends the step with kOutOfRange, which names the
// index and its place. The gradient of `table` is a ScatterAdd.
//
// kInvalidArgument, as the graph's first error (Graph::status(),
// Session::Create), for a table that lacks `dim`, indices that are not i32 or
// i64 or have `dim`, a name of two sizes, and one tensor that is empty or of
// another graph. Two empty Tensors give an empty Tensor.
Tensor Gather(Tensor table, Tensor indices, absl::string_view dim,
              std::source_location location = std::source_location::current());

// The transpose of Gather: a tensor of `shape`, zero but for the sums of the
// `updates` sent to each place of its dimension `dim` by `indices`. `updates`
// has the dimensions of `indices` and those of `shape` but `dim`.
//
//   // [batch, length, d_model] at [batch, length] -> [vocab, d_model]
//   Tensor d = ScatterAdd(dx, tokens, "vocab", {vocab, d_model});
//
// Float or integer. Sums are taken in a fixed order, so equal inputs give
// equal bits. An index outside [0, size) ends the step with kOutOfRange.
//
// kInvalidArgument for a `shape` that lacks `dim`, updates that are bool or
// have other dimensions, and for indices and tensors as above.
Tensor ScatterAdd(
    Tensor updates, Tensor indices, absl::string_view dim, Shape shape,
    std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_GATHER_H_
