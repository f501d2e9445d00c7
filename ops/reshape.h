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

// Functions of any dtype. They record kInvalidArgument in the graph for a name
// that must exist and does not, or must be new and is not, and if
// Shape::Validate rejects the result. They return an empty Tensor if `x` is
// empty.

// The same elements in row-major order under other dimensions. Records
// kInvalidArgument if `shape` does not have as many elements as `x`.
//
//   Tensor y = Reshape(x, {batch, {"pixels", 784}});
//
// Dimensions that `shape` keeps, merges or splits can stay sharded: if the
// layout lines up the shards, each shard of the result is a shard of `x`.
Tensor Reshape(Tensor x, Shape shape,
               std::source_location location = std::source_location::current());

// Renames the dimension `from` to `to`, which `x` does not have. Returns `x` if
// the names are equal.
//
//   // Keys get their own length, so that it is not matched with the queries'.
//   Tensor k = Rename(x, "length", "memory_length");
Tensor Rename(Tensor x, absl::string_view from, absl::string_view to,
              std::source_location location = std::source_location::current());

// Merges the dimensions `names`, major to minor, into the dimension `merged` at
// the position of the first of `names`. They need not be adjacent in `x`.
//
//   // [batch, heads, d_kv] -> [batch, d_model]
//   Tensor y = MergeDimensions(x, {"heads", "d_kv"}, "d_model");
//
// `merged` may be one of `names`. Also records kInvalidArgument if `names` is
// empty or has a name twice.
Tensor MergeDimensions(
    Tensor x, std::vector<std::string> names, absl::string_view merged,
    std::source_location location = std::source_location::current());

// Splits the dimension `name` into the dimensions `parts`, major to minor, at
// its position. The product of their sizes is its size.
//
//   // [batch, d_model] -> [batch, heads, d_kv]
//   Tensor y = SplitDimension(x, "d_model", {heads, d_kv});
//
// One of `parts` may be called `name`. Also records kInvalidArgument if the
// product of the sizes differs.
Tensor SplitDimension(
    Tensor x, absl::string_view name, std::vector<Dimension> parts,
    std::source_location location = std::source_location::current());

// Repeats `x` along the dimensions of `shape` that it lacks. `shape` has every
// dimension of `x`. The gradient sums over the new dimensions.
//
//   Tensor y = Broadcast(bias, {batch, io});  // [io] -> [batch, io]
//
// Also records kInvalidArgument if a dimension has another size in `shape`.
Tensor Broadcast(
    Tensor x, Shape shape,
    std::source_location location = std::source_location::current());

// `x` with its dimensions in the order of `shape`, which has the same
// dimensions. This only matters for the order of elements on the host:
// operations match dimensions by name and need no transposes.
//
//   Tensor y = Transpose(x, {io, batch});  // [batch, io] -> [io, batch]
//
// Also records kInvalidArgument if a dimension has another size in `shape`.
Tensor Transpose(
    Tensor x, Shape shape,
    std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_RESHAPE_H_
