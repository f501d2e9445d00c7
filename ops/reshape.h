// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_RESHAPE_H_
#define OPS_RESHAPE_H_

#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf {

// The same elements in row-major order under other dimensions, in any dtype.
// `shape` has as many elements as `x`; otherwise the graph records
// kInvalidArgument as its first error, which Graph::status() and
// Session::Create return. So does every function below for a name that is
// absent where it must be present, or present where it must be new, and for a
// result that Shape::Validate refuses. An empty `x` gives an empty Tensor.
//
//   Tensor y = Reshape(x, {batch, {"pixels", 784}});
//
// Where `shape` leaves dimensions as they are, or merges or splits them, each
// shard of the result comes from a shard of `x` if a layout lines them up.
Tensor Reshape(Tensor x, Shape shape,
               std::source_location location = std::source_location::current());

// `x` with the dimension `from` called `to`, a name that `x` does not have, or
// `from` again, which is `x` itself.
//
//   // Keys get a length of their own, so that queries do not meet them.
//   Tensor k = Rename(x, "length", "memory_length");
Tensor Rename(Tensor x, absl::string_view from, absl::string_view to,
              std::source_location location = std::source_location::current());

// `x` with the dimension `first` also called `second`: one dimension that a
// layout may cut in two ways. Under a layout that has no rule for `second`, it
// is `first` in all there is, and this call is nothing; under one that has, it
// is a Rename. Rename(x, second, first) goes back.
//
//   // Between blocks and in them.
//   Tensor y = SecondName(x, "length", "block_length");
//   x = x + Rename(nn::Dense(y, {d_model}, {d_model}), "block_length",
//   "length");
//
// Where one operation of the graph has both names, they are two dimensions, as
// under Rename.
Tensor SecondName(
    Tensor x, absl::string_view first, absl::string_view second,
    std::source_location location = std::source_location::current());

// The same of several dimensions at once, {first, second} each: a layout may
// cut one in place of another, which is one exchange.
Tensor SecondNames(
    Tensor x, std::vector<std::pair<std::string, std::string>> names,
    std::source_location location = std::source_location::current());

// The dimensions `names`, major to minor, as the one dimension `merged`, which
// stands where the first of `names` stood. They need not be neighbours in `x`.
//
//   // [batch, heads, d_kv] -> [batch, d_model]
//   Tensor y = MergeDimensions(x, {"heads", "d_kv"}, "d_model");
//
// `merged` may be one of `names`. kInvalidArgument also for no names, and for
// one twice.
Tensor MergeDimensions(
    Tensor x, std::vector<std::string> names, absl::string_view merged,
    std::source_location location = std::source_location::current());

// The dimension `name` as the dimensions `parts`, major to minor, whose sizes
// multiply to its size. They stand in its place.
//
//   // [batch, d_model] -> [batch, heads, d_kv]
//   Tensor y = SplitDimension(x, "d_model", {heads, d_kv});
//
// One of `parts` may be called `name`. kInvalidArgument also for another
// product of sizes.
Tensor SplitDimension(
    Tensor x, absl::string_view name, std::vector<Dimension> parts,
    std::source_location location = std::source_location::current());

// `x` repeated along the dimensions of `shape` that it lacks; `shape` holds
// every dimension of `x`. The gradient sums over the new dimensions.
//
//   Tensor y = Broadcast(bias, {batch, io});  // [io] -> [batch, io]
//
// kInvalidArgument also for a dimension of another size in `shape`.
Tensor Broadcast(
    Tensor x, Shape shape,
    std::source_location location = std::source_location::current());

// `x` with its dimensions in the order of `shape`, which has the same ones.
// Only the order on the host changes: operations meet by name and need no
// transposes.
//
//   Tensor y = Transpose(x, {io, batch});  // [batch, io] -> [io, batch]
//
// kInvalidArgument also for a dimension of another size in `shape`.
Tensor Transpose(
    Tensor x, Shape shape,
    std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_RESHAPE_H_
