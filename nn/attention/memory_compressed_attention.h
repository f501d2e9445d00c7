// SPDX-License-Identifier: Apache-2.0
#ifndef NN_ATTENTION_MEMORY_COMPRESSED_ATTENTION_H_
#define NN_ATTENTION_MEMORY_COMPRESSED_ATTENTION_H_

#include <cstdint>
#include <source_location>

#include "absl/strings/string_view.h"
#include "mtf/tensor.h"
#include "nn/attention/attention.h"

namespace mtf::nn {

// The means of `factor` consecutive elements of `x` along `dim`, which keeps
// its name and counts them; the last may be of fewer. Where `dim` is sharded,
// neighbours send what a mean across shards needs.
//
//   // [batch, length:10, d_model] -> [batch, length:4, d_model]
//   Tensor y = nn::CompressMean(x, "length", 3);
//
// Records kInvalidArgument in the graph if `x` is not a float or lacks `dim`,
// or the factor is less than 1. Returns an empty Tensor if `x` is empty.
Tensor CompressMean(
    Tensor x, absl::string_view dim, int64_t factor,
    std::source_location location = std::source_location::current());

// Self-attention to means of `factor` positions, so that keys, values and
// logits are shorter by the factor (memory-compressed attention, Liu et al.,
// 2018). With .causal, a query attends to the means of which all positions are
// not after it; the first queries attend to none and get the output of a value
// of 0. The last dimension of `x` is the model dimension.
//
//   // [batch, length, d_model] -> [batch, length, d_model]
//   x = x + nn::MemoryCompressedAttention(
//       x, 3, {.length = length, .heads = heads, .d_kv = d_kv});
//
// Keys have the dimension .memory_length, or "memory_length", of
// ceil(length / factor) positions; .mask and .position_bias refer to these.
//
// Records kInvalidArgument in the graph if .window or .rotary is set, and for
// the errors of CompressMean and MultiHeadAttention. Returns an empty Tensor if
// `x` is empty.
Tensor MemoryCompressedAttention(
    Tensor x, int64_t factor, AttentionOptions options,
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_ATTENTION_MEMORY_COMPRESSED_ATTENTION_H_
