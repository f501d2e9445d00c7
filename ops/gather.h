// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_GATHER_H_
#define OPS_GATHER_H_

#include <source_location>

#include "absl/strings/string_view.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf {

// Selects rows of `table` along `dim` by the integers `indices`. The result has
// the dimensions of `indices`, then the other dimensions of `table`. A
// dimension of both is matched: element i of `indices` along it selects among
// the rows at element i of `table`.
//
//   // [vocab, d_model] at [batch, length] -> [batch, length, d_model]
//   Tensor x = Gather(embedding, tokens, "vocab");
//
// The gradient of `table` is a ScatterAdd. An index outside [0, size of `dim`)
// ends the step with kOutOfRange, which states the index and its coordinates.
//
// Records kInvalidArgument in the graph if `table` lacks `dim`, `indices` are
// not i32 or i64 or have `dim`, a name has two sizes, or one of the tensors is
// empty or belongs to another graph. Returns an empty Tensor if both are empty.
Tensor Gather(Tensor table, Tensor indices, absl::string_view dim,
              std::source_location location = std::source_location::current());

// The transpose of Gather: adds each row of `updates` to the row of a zero
// tensor of `shape` that `indices` selects along `dim`. `updates` has the
// dimensions of `indices` and those of `shape` except `dim`, and is float or
// integer.
//
//   // [batch, length, d_model] at [batch, length] -> [vocab, d_model]
//   Tensor d = ScatterAdd(dx, tokens, "vocab", {vocab, d_model});
//
// Sums are taken in a fixed order, so results are bitwise reproducible. An
// index outside [0, size of `dim`) ends the step with kOutOfRange.
//
// Records kInvalidArgument in the graph if `shape` lacks `dim`, `updates` are
// bool or have other dimensions, and for the errors of Gather.
Tensor ScatterAdd(
    Tensor updates, Tensor indices, absl::string_view dim, Shape shape,
    std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_GATHER_H_
