// SPDX-License-Identifier: Apache-2.0
//
// Dot product attention and multi-head attention.
//
// Order of dimensions: queries, keys and values are [batch..., length, heads,
// d_kv], so that each projection, which is most of the work, is one contiguous
// matrix product. The products of attention are batched over [batch..., heads],
// with rows heads * d_kv elements apart. Logits are [batch..., heads, length,
// memory_length], so that the softmax runs over contiguous elements.
//
// All errors are kInvalidArgument, recorded in the graph (Graph::status()).
#ifndef NN_ATTENTION_ATTENTION_H_
#define NN_ATTENTION_ATTENTION_H_

#include <cstdint>
#include <optional>
#include <source_location>
#include <string>

#include "mtf/dimension.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"
#include "nn/attention/rotary.h"

namespace mtf::nn {

struct DotProductAttentionOptions {
  Dimension length = Dimension();         // of the queries
  Dimension memory_length = Dimension();  // of the keys and values
  Dimension d_kv = Dimension();           // contracted by queries and keys
  Dimension d_v = Dimension();            // of the values; without a name: d_kv
  bool causal = false;  // position i attends to positions 0..i only
  double dropout = 0;   // of the attention weights
  // Bool, with any of the dimensions [batch..., heads, length, memory_length]:
  // true where a query attends to a key. Empty: true everywhere.
  Tensor mask = Tensor();
  // Of a float dtype, with any of the same dimensions: added to the logits,
  // such as T5's relative position bias. Has a gradient.
  Tensor bias = Tensor();
  // A query at position p attends to positions above p - window only, such as
  // Mistral's sliding window. 0: no window.
  int64_t window = 0;
  // Replaces logits x by soft_cap * tanh(x / soft_cap), as Gemma 2 does. 0: no
  // cap.
  double soft_cap = 0;
  // Of the products of queries and keys. Empty: 1 / sqrt(d_kv).
  std::optional<double> scale = std::nullopt;
  // I32, a scalar or with some of [batch..., heads]: added to the positions of
  // the queries, as in decoding with a cache of keys and values.
  Tensor offset = Tensor();
  // Of a float dtype, with any of [batch..., heads, length]: the logit of a
  // further key, whose value is 0.
  Tensor extra_logit = Tensor();
};

// Computes softmax(q k / sqrt(d_kv)) v over `memory_length` (Vaswani et al.,
// 2017).
//
//   q   [batch..., length, heads, d_kv]
//   k   [batch..., memory_length, heads, d_kv]
//   v   [batch..., memory_length, heads, d_v]
//   ->  the shape of q, with d_v in the place of d_kv
//
//   Tensor y = nn::DotProductAttention(q, k, v, {.length = length,
//       .memory_length = memory_length, .d_kv = d_kv, .causal = true});
//
// Further dimensions are matched by name. Keys and values without `heads`, or
// without a dimension of groups of heads that the queries have, are shared by
// these. A query that attends to no key gets zeros. The softmax is computed in
// f32. Values may be wider or narrower than keys; a GPU computes attention in
// one kernel only if they are equally wide. The CPU never holds the logits: its
// memory is linear in the lengths (ops/attention.h).
//
// It is an error if
//   * one of q, k, v is empty or belongs to another graph, or their dtypes are
//     not the same float dtype;
//   * one of the first three dimensions in the options is missing, or a tensor
//     has one of the four in another size;
//   * q has `memory_length`, k or v has `length`, or q lacks a dimension of k
//     or v other than d_v;
//   * v has d_kv, or q has d_v, if these have different names;
//   * the mask is not bool, the bias or extra logit not float, the offset not
//     i32, or one has a dimension that it cannot have;
//   * scale or soft_cap is not finite, soft_cap or window is negative, or
//     dropout is outside [0, 1).
// Returns an empty Tensor if all three are empty.
Tensor DotProductAttention(
    Tensor q, Tensor k, Tensor v, DotProductAttentionOptions options,
    std::source_location location = std::source_location::current());

struct AttentionOptions {
  Dimension length = Dimension();  // of x
  Dimension heads = Dimension();
  Dimension d_kv = Dimension();
  Dimension d_v = Dimension();  // of the values; without a name: d_kv
  bool causal = false;          // position i attends to positions 0..i only
  double dropout = 0;           // of the attention weights
  bool bias = false;            // in the four projections
  Tensor mask = Tensor();  // as above; keys have the dimension "memory_length"
  // For MultiHeadAttention: the length of `memory`. SelfAttention names it
  // "memory_length".
  Dimension memory_length = Dimension();
  // Groups of heads that share keys and values (grouped-query attention,
  // Ainslie et al., 2023): queries are [..., groups, heads, d_kv], keys and
  // values [..., groups, d_kv]. Of size 1: multi-query attention (Shazeer,
  // 2019). Without a name: each head has keys and values of its own.
  Dimension groups = Dimension();
  // Rotates queries and keys by their positions. Given .positions are those of
  // `length`, and those of memory_length, too.
  std::optional<RotaryOptions> rotary = std::nullopt;
  // The options .bias, .window and .soft_cap of DotProductAttention.
  Tensor position_bias = Tensor();
  int64_t window = 0;
  double soft_cap = 0;
  // Of the products of queries and keys. Empty: 1 / sqrt(d_kv). T5 has 1.
  std::optional<double> scale = std::nullopt;
  // Dimensions of `x` and the memory with kernels of its own for each element,
  // such as the members of an ensemble.
  Shape each = Shape();
  std::string name = "attention";
};

// Multi-head self-attention of `x`. The last dimension of `x` is the model
// dimension. Queries and keys have d_kv elements for each head, values d_v.
//
//   // [batch, length, d_model] -> [batch, length, d_model]
//   x = x + nn::SelfAttention(nn::LayerNorm(x, d_model), {.length = length,
//       .heads = heads, .d_kv = d_kv, .causal = true});
//
// Keys and values have the dimension "memory_length" in place of `length`, so
// that a layout can shard `length`. Errors are those of MultiHeadAttention.
// Returns an empty Tensor if `x` is empty.
Tensor SelfAttention(
    Tensor x, AttentionOptions options,
    std::source_location location = std::source_location::current());

// Multi-head attention of `x` [batch..., length, d_model] to `memory`
// [batch..., memory_length, d_memory]. The last dimension of each is its model
// dimension; the two may have the same name. Consists of the Dense layers
// "query", "key", "value" and "output" around a DotProductAttention, whose
// scope is "dot_product".
//
//   // -> [batch..., length, d_model]
//   Tensor y = nn::MultiHeadAttention(x, memory, {.length = length,
//       .heads = heads, .d_kv = d_kv, .memory_length = source_length});
//
// It is an error if `.length`, `.heads`, `.d_kv` or `.memory_length` is
// missing; if `x` lacks `length` or `memory` has it; if `memory` lacks
// `memory_length` or `x` has it; if a last dimension is the length; and for the
// errors of Dense, RotaryEmbedding and DotProductAttention. Returns an empty
// Tensor if both are empty.
Tensor MultiHeadAttention(
    Tensor x, Tensor memory, AttentionOptions options,
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_ATTENTION_ATTENTION_H_
