// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_RESHAPE_H_
#define OPS_RESHAPE_H_

#include <source_location>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf {

// The same elements in row-major order under other dimensions. `shape` has as
// many elements as `x`; otherwise the graph records kInvalidArgument, as every
// function below does for a name that is absent where it must be present, or
// present where it must be new.
//
// Where `shape` leaves dimensions as they are, or merges or splits them, each
// shard of the result comes from a shard of `x` if a layout lines them up.
Tensor Reshape(Tensor x, Shape shape,
               std::source_location location = std::source_location::current());

// `x` with the dimension `from` called `to`, a name that `x` does not have.
//
//   // Keys get a length of their own, so that queries do not meet them.
//   Tensor k = Rename(x, "length", "memory_length");
Tensor Rename(Tensor x, absl::string_view from, absl::string_view to,
              std::source_location location = std::source_location::current());

// The dimensions `names`, major to minor, as the one dimension `merged`, which
// stands where the first of `names` stood. They need not be neighbours in `x`.
//
//   // [batch, heads, d_kv] -> [batch, d_model]
//   Tensor y = MergeDimensions(x, {"heads", "d_kv"}, "d_model");
Tensor MergeDimensions(
    Tensor x, std::vector<std::string> names, absl::string_view merged,
    std::source_location location = std::source_location::current());

// The dimension `name` as the dimensions `parts`, major to minor, whose sizes
// multiply to its size.
//
//   Tensor y = SplitDimension(x, "d_model", {heads, d_kv});
Tensor SplitDimension(
    Tensor x, absl::string_view name, std::vector<Dimension> parts,
    std::source_location location = std::source_location::current());

// `x` repeated along the dimensions of `shape` that it lacks; `shape` holds
// every dimension of `x`. The gradient sums over the new dimensions.
Tensor Broadcast(
    Tensor x, Shape shape,
    std::source_location location = std::source_location::current());

// `x` with its dimensions in the order of `shape`. Only the order on the host
// changes: operations meet by name and need no transposes.
Tensor Transpose(
    Tensor x, Shape shape,
    std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_RESHAPE_H_
