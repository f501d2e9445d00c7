// SPDX-License-Identifier: Apache-2.0
//
// Attention for decoding: a step has one or a few new positions, and the keys
// and values of earlier ones are in state variables. Built in a scope that is
// reused, a layer takes the parameters that SelfAttention and
// MultiHeadAttention have created there (Scope::kReuse):
//
//   const nn::AttentionOptions options = {.length = now, .heads = heads,
//       .d_kv = d_kv, .causal = true, .memory_length = memory_length};
//   const nn::KeyValueCache cache =
//       nn::CacheVariables(graph, {batch}, options);
//   {
//     Scope scope(graph, "decoder", Scope::kReuse);
//     const nn::CachedAttentionResult y =
//         nn::CachedSelfAttention(x, cache, position, options);
//     x = x + y.output;
//     writes.push_back(nn::WriteCache(cache, y.cache));
//   }
//   session->Run({.feeds = ..., .fetches = {x}, .updates = writes});
//
// A step writes the new rows of a cache in place. With batch, heads or groups
// sharded, cache and attention are sharded alike; with memory_length sharded,
// each device has its rows, and only results of attention are reduced.
#ifndef NN_ATTENTION_CACHED_ATTENTION_H_
#define NN_ATTENTION_CACHED_ATTENTION_H_

#include <source_location>
#include <string>

#include "mtf/dtype.h"
#include "mtf/graph.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"
#include "nn/attention/attention.h"

namespace mtf::nn {

struct KeyValueCache {
  Tensor keys;    // [batch..., memory_length, heads or groups, d_kv]
  Tensor values;  // [batch..., memory_length, heads or groups, d_v]
};

struct CacheOptions {
  DType dtype = kFloat32;
  std::string name = "cache";
};

// State variables "<name>/keys" and "<name>/values" for attention with
// `options`, whose .memory_length is the largest number of positions. Zeros at
// first. Several caches of a scope have different names.
//
// Records kInvalidArgument in the graph if .memory_length, .heads or .d_kv is
// missing, and for the errors of StateVariable().
KeyValueCache CacheVariables(
    Graph& graph, const Shape& batch, AttentionOptions options,
    CacheOptions cache_options = {},
    std::source_location location = std::source_location::current());

// Sets the variables of a cache: a step that has the result among its updates
// writes them. Errors are those of Assign().
Tensor WriteCache(
    const KeyValueCache& variables, const KeyValueCache& next,
    std::source_location location = std::source_location::current());

struct CachedAttentionResult {
  Tensor output;        // the shape of x
  KeyValueCache cache;  // with the rows of x
};

// SelfAttention of the new positions `x` [batch..., length, d_model], of which
// the first has the position `position`, to themselves and to those in `cache`.
// Returns also the cache with the keys and values of `x`.
//
// `position` is an integer, or one for each of some dimensions of the batch.
// The options are those of the layer for complete sequences, with .length of
// the new positions and .memory_length of the cache; without a name, the latter
// is "memory_length" of the cache. Rotary embeddings, windows and groups apply.
// A position whose row is outside the cache ends the step with kOutOfRange.
//
// Records kInvalidArgument in the graph if .causal is not set, as later rows
// have no keys yet; if `position` is not an integer, or has the length; if the
// cache has another shape or dtype than keys and values of `x`; and for the
// errors of SelfAttention. Returns empty Tensors if all operands are empty.
CachedAttentionResult CachedSelfAttention(
    Tensor x, KeyValueCache cache, Tensor position, AttentionOptions options,
    std::source_location location = std::source_location::current());

// The two halves of MultiHeadAttention to a memory that does not change, such
// as the result of an encoder: keys and values once, then the attention of new
// positions to them. Together they have the parameters of one
// MultiHeadAttention of the same name; where it is built by halves, give the
// layer a .name of its own, so that both find its parameters.
//
//   // In the step that encodes:
//   const nn::KeyValueCache memory = nn::ProjectMemory(encoded, options);
//   writes.push_back(nn::WriteCache(cache, memory));
//   // In the step that decodes:
//   x = x + nn::AttendToCache(x, cache, options);
//
// Errors are those of MultiHeadAttention. Return empty Tensors if all operands
// are empty.
KeyValueCache ProjectMemory(
    Tensor memory, AttentionOptions options,
    std::source_location location = std::source_location::current());
Tensor AttendToCache(
    Tensor x, KeyValueCache cache, AttentionOptions options,
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_ATTENTION_CACHED_ATTENTION_H_
