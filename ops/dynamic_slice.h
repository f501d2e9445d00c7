// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_DYNAMIC_SLICE_H_
#define OPS_DYNAMIC_SLICE_H_

#include <cstdint>
#include <source_location>

#include "absl/strings/string_view.h"
#include "mtf/dimension.h"
#include "mtf/tensor.h"

namespace mtf {

// Elements [index, index + size) of `x` along `dim`, where a step computes the
// index: a scalar i32 or i64, or a tensor of them with some of the other
// dimensions of `x`, such as [batch], which has an index for each of its
// elements.
//
//   // [batch, length, d_model] at [batch] -> [batch, length:4, d_model]
//   Tensor last = DynamicSlice(x, "length", position, 4);
//
// Any dtype. The gradient is 0 at the other elements of `x`. Where `dim` is
// sharded, only the result is sent. An index outside [0, size of `dim` - size]
// ends the step with kOutOfRange, before any variable changes.
//
// Records kInvalidArgument in the graph if `x` lacks `dim`, the index is not
// i32 or i64, has `dim` or a dimension that `x` lacks, `size` exceeds that of
// `dim`, or one of the tensors is empty or belongs to another graph. Returns an
// empty Tensor if both are empty.
Tensor DynamicSlice(
    Tensor x, absl::string_view dim, Tensor index, int64_t size,
    std::source_location location = std::source_location::current());

// As above, with the dimension `rows` in the place of `dim`, under a name of
// its own, which a layout need not shard as `dim`. Records kInvalidArgument in
// the graph if `x` has another dimension of that name.
//
//   Tensor now = DynamicSlice(x, "length", position, Dimension{"now", 4});
Tensor DynamicSlice(
    Tensor x, absl::string_view dim, Tensor index, Dimension rows,
    std::source_location location = std::source_location::current());

// `x` with rows [index, index + size) along `dim` replaced by `update`, which
// has the other dimensions of `x`, in any order, and the rows as the dimension
// `dim` in its own size or as a dimension that `x` lacks; without either it is
// one row. The index is that of DynamicSlice.
//
// An update of a variable whose old value nothing reads any more is computed in
// place, also several in one step: it writes the rows, not the variable.
//
//   Tensor cache = StateVariable(graph, "keys", kBFloat16,
//                                {batch, memory_length, heads, d_kv});
//   Tensor keys = UpdateSlice(cache, key, "memory_length", position);
//   Tensor write = Assign(cache, keys);
//
// Any dtype, the same for both. The gradient of `x` is 0 at the rows, that of
// `update` is a DynamicSlice. Where `dim` is sharded, each device writes the
// rows that it holds, and nothing is sent but `update` where it is sharded
// otherwise. Errors are those of DynamicSlice; also if `update` has other
// dimensions or another dtype.
Tensor UpdateSlice(
    Tensor x, Tensor update, absl::string_view dim, Tensor index,
    std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_DYNAMIC_SLICE_H_
