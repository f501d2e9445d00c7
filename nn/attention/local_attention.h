// SPDX-License-Identifier: Apache-2.0
#ifndef NN_ATTENTION_LOCAL_ATTENTION_H_
#define NN_ATTENTION_LOCAL_ATTENTION_H_

#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "mtf/dimension.h"
#include "mtf/tensor.h"
#include "nn/attention/attention.h"

namespace mtf::nn {

struct LocalDimension {
  Dimension dim = Dimension();
  int64_t radius = 0;  // how far away a key may be
  // Queries that are computed together, with the keys within the radius of any
  // of them. 0: about as many as the radius. Changes the cost only.
  int64_t block = 0;
};

struct LocalAttentionOptions {
  // The length of a sequence, or the height and width of an image.
  std::vector<LocalDimension> along;
  Dimension d_kv = Dimension();
  Dimension d_v = Dimension();  // of the values; without a name: d_kv
  // A query attends to itself and to earlier keys only, in row-major order of
  // the dimensions.
  bool causal = false;
  double dropout = 0;  // of the attention weights
  double soft_cap = 0;
  std::optional<double> scale = std::nullopt;
  // Integers with the dimensions of `along` and any others of the batch: a
  // query attends to keys of its segment only, such as its document.
  Tensor segments = Tensor();
};

// Dot product attention of each query to the keys within a radius along each of
// one or more dimensions (Parmar et al., 2018; Beltagy et al., 2020). Equal to
// DotProductAttention with the corresponding mask, but its work and memory are
// linear in the length: blocks of queries attend to windows of keys.
//
//   q, k, v  [batch..., along..., heads, d_kv]
//   ->       the shape of q, with d_v instead of d_kv
//
//   // Each position attends to itself and to 255 before it.
//   Tensor y = nn::LocalAttention(
//       q, k, v, {.along = {{length, 255}}, .d_kv = d_kv, .causal = true});
//   // Each pixel attends to 9 x 9 around it.
//   Tensor z = nn::LocalAttention(
//       q, k, v, {.along = {{height, 4}, {width, 4}}, .d_kv = d_kv});
//
// Queries, keys and values have the same dimensions `along`, of any size. Where
// a layout shards one, neighbours send the keys and values of the radius
// and what blocks across shards need; nothing is gathered. Keys and values
// without heads, or without groups of heads, are shared by these.
//
// Records kInvalidArgument in the graph if `along` is empty or has a name
// twice; if q, k or v lacks one of its dimensions or has it in another size; if
// a radius or block is negative; if segments are not integers, or have a
// dimension that q lacks or d_kv; and for the errors of DotProductAttention.
// Returns an empty Tensor if q, k and v are empty.
Tensor LocalAttention(
    Tensor q, Tensor k, Tensor v, LocalAttentionOptions options,
    std::source_location location = std::source_location::current());

// Multi-head self-attention of `x` [batch..., along..., d_model] by
// LocalAttention: the parameters of SelfAttention, with heads, groups, d_kv,
// d_v, dropout, soft_cap, scale, causal, bias, each and name of `options`, and
// along and segments of `local`.
//
//   x = x + nn::LocalSelfAttention(
//       x, {.along = {{length, 128}}},
//       {.heads = heads, .d_kv = d_kv, .causal = true});
//
// Records kInvalidArgument in the graph if .heads or .d_kv is missing, the last
// dimension of `x` is one of `along`, another option is set in one of the two,
// and for the errors of Dense and LocalAttention.
Tensor LocalSelfAttention(
    Tensor x, LocalAttentionOptions local, AttentionOptions options,
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_ATTENTION_LOCAL_ATTENTION_H_
