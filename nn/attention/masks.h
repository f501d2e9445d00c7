// SPDX-License-Identifier: Apache-2.0
//
// Masks for the option .mask of attention: bools that are true where a query
// attends to a key. Combine them with LogicalAnd and LogicalOr. Each function
// takes positions, segments or ids of queries and of keys, integers with the
// dimension of their side, and maybe others such as [batch]. The result has the
// dimensions of both:
//
//   const Tensor positions = Range(graph, length);
//   const Tensor memory_positions = Range(graph, memory_length);
//   // segments: [batch, length], such as documents in one row
//   const Tensor memory_segments = Rename(segments, "length", "memory_length");
//   const Tensor mask =
//       LogicalAnd(nn::CausalMask(positions, memory_positions),
//                  nn::SegmentMask(segments, memory_segments));
//
// Masks are elementwise functions; those of positions from Range() need no
// communication under any layout. For plain causal attention and windows, the
// options .causal and .window of attention skip the keys that they exclude.
//
// Functions record kInvalidArgument in the graph if an operand is not i32 or
// i64; if one is empty or belongs to another graph; or if the keys have no
// dimension that the queries lack. They return an empty Tensor if all operands
// are empty.
#ifndef NN_ATTENTION_MASKS_H_
#define NN_ATTENTION_MASKS_H_

#include <cstdint>
#include <source_location>

#include "mtf/tensor.h"

namespace mtf::nn {

// True for keys whose token is not `padding`: [batch, memory_length].
Tensor PaddingMask(
    Tensor memory_tokens, int64_t padding = 0,
    std::source_location location = std::source_location::current());

// True for keys of the segment of the query.
Tensor SegmentMask(
    Tensor segments, Tensor memory_segments,
    std::source_location location = std::source_location::current());

// True for keys that are not after the query.
Tensor CausalMask(
    Tensor positions, Tensor memory_positions,
    std::source_location location = std::source_location::current());

// True for keys that are not after the query, and for all of a prefix of
// `prefix` positions, such as [batch]: a prefix language model (Raffel et al.,
// 2020).
Tensor PrefixMask(
    Tensor positions, Tensor memory_positions, Tensor prefix,
    std::source_location location = std::source_location::current());

// True for keys from `before` positions before the query to `after` positions
// after it. Also records kInvalidArgument if one of these is negative.
Tensor WindowMask(
    Tensor positions, Tensor memory_positions, int64_t before, int64_t after,
    std::source_location location = std::source_location::current());

struct BlockMaskOptions {
  int64_t block = 1;              // positions of a block
  int64_t before = 1, after = 0;  // blocks next to that of the query
};

// True for keys in the block of the query, and in `before` blocks before it and
// `after` blocks after it: block-local attention. And it with CausalMask for a
// language model. Also records kInvalidArgument if `block` is less than 1, or
// one of the others is negative.
Tensor BlockMask(
    Tensor positions, Tensor memory_positions, BlockMaskOptions options,
    std::source_location location = std::source_location::current());

struct BlockMask2dOptions {
  int64_t width = 1;  // of the image
  BlockMaskOptions rows = BlockMaskOptions();
  BlockMaskOptions columns = BlockMaskOptions();
};

// The same for an image, whose pixels have positions in row-major order: true
// if the rows are in neighbouring blocks of `.rows.block` rows, and the columns
// in neighbouring blocks of `.columns.block` columns (Parmar et al., 2018).
// Also records kInvalidArgument if `width` is less than 1.
Tensor BlockMask2d(
    Tensor positions, Tensor memory_positions, BlockMask2dOptions options,
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_ATTENTION_MASKS_H_
