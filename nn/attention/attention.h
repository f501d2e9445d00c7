// SPDX-License-Identifier: Apache-2.0
//
// Dimension orders: queries, keys and values are [batch..., length, heads,
// d_kv], so that each projection, where most of the work is, is one contiguous
// matrix product; the products of attention are then batched over [batch...,
// heads] with rows heads * d_kv apart. Logits are [batch..., heads, length,
// memory_length], so that the softmax runs over neighbours in memory.
//
// Errors are kInvalidArgument, as the graph's first error (Graph::status(),
// Session::Create).
#ifndef NN_ATTENTION_ATTENTION_H_
#define NN_ATTENTION_ATTENTION_H_

#include <source_location>
#include <string>

#include "mtf/dimension.h"
#include "mtf/tensor.h"

namespace mtf::nn {

struct DotProductAttentionOptions {
  Dimension length = Dimension();         // of the queries
  Dimension memory_length = Dimension();  // of the keys and values
  Dimension d_kv = Dimension();           // summed between queries and keys
  bool causal = false;                    // position i sees positions 0..i only
  double dropout = 0;                     // of the attention weights
  // Bool, any of [batch..., heads, length, memory_length]: true where a query
  // sees a key. Empty: everywhere.
  Tensor mask = Tensor();
};

// softmax(q k / sqrt(d_kv)) v over `memory_length`, by Vaswani et al., 2017.
//
//   q     [batch..., length, heads, d_kv]
//   k, v  [batch..., memory_length, heads, d_kv]
//   ->    the shape of q
//
// The dimensions between length and d_kv are free: whatever q and k share is
// matched, so keys without `heads` are shared by all heads. A query that sees
// nothing gets zeros. The softmax is f32 whatever the dtype.
//
//   Tensor y = nn::DotProductAttention(q, k, v, {.length = length,
//       .memory_length = memory_length, .d_kv = d_kv, .causal = true});
//
// An error: one of q, k, v that is empty or of another graph, dtypes that are
// not one float dtype, an option of the three dimensions that is missing or not
// there in its size, `memory_length` in q or `length` in k or v, a dimension of
// k or v that q lacks, a mask that is no bool or has other dimensions than the
// logits, and a dropout outside of [0, 1). Three empty Tensors give an empty
// Tensor.
Tensor DotProductAttention(
    Tensor q, Tensor k, Tensor v, DotProductAttentionOptions options,
    std::source_location location = std::source_location::current());

struct AttentionOptions {
  Dimension length = Dimension();  // of x
  Dimension heads = Dimension();
  Dimension d_kv = Dimension();
  bool causal = false;     // position i sees positions 0..i only
  double dropout = 0;      // of the attention weights
  bool bias = false;       // in the four projections
  Tensor mask = Tensor();  // as above; keys are along "memory_length"
  // The dimension of `memory` that takes the place of `length`, for
  // MultiHeadAttention; SelfAttention names it "memory_length" itself.
  Dimension memory_length = Dimension();
  std::string name = "attention";
};

// Multi-head attention of the sequence `x` to itself. The last dimension of `x`
// is the model dimension, which the projections sum over and restore.
//
//   // [batch, length, d_model] -> [batch, length, d_model]
//   x = x + nn::SelfAttention(nn::LayerNorm(x, d_model), {.length = length,
//       .heads = heads, .d_kv = d_kv, .causal = true});
//
// Keys and values live along "memory_length", a new name for `length`, so
// `length` itself may be sharded. Errors are those of MultiHeadAttention; an
// empty `x` gives an empty Tensor.
//
// Inside, the length is "block_length", and between the projections, where each
// head is on its own, it is "attention_length", the heads "attention_heads" and
// the memory's length "attention_memory_length": second names (SecondName of
// ops/reshape.h), after the names that are given. A layout that has rules for
// them can cut these places in other ways.
Tensor SelfAttention(
    Tensor x, AttentionOptions options,
    std::source_location location = std::source_location::current());

// Multi-head attention of `x` [batch..., length, d_model] to `memory`
// [batch..., memory_length, d_memory], with names of its own for its length.
// The last dimension of each is its model dimension; the names may be equal.
// Four Dense layers, "query", "key", "value" and "output", around a
// DotProductAttention:
//
//   // -> [batch..., length, d_model]
//   Tensor y = nn::MultiHeadAttention(x, memory, {.length = length,
//       .heads = heads, .d_kv = d_kv, .memory_length = source_length});
//
// The second names are those of SelfAttention.
//
// An error: an option `.length`, `.heads`, `.d_kv` or `.memory_length` that is
// missing; `length` that x lacks or memory has, `memory_length` that memory
// lacks or x has; a last dimension that is the length; and what Dense and
// DotProductAttention refuse. Two empty Tensors give an empty Tensor.
Tensor MultiHeadAttention(
    Tensor x, Tensor memory, AttentionOptions options,
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_ATTENTION_ATTENTION_H_
