// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_PRODUCT_KEY_MEMORY_H_
#define NN_LAYERS_PRODUCT_KEY_MEMORY_H_

#include <cstdint>
#include <source_location>
#include <string>

#include "mtf/dimension.h"
#include "mtf/tensor.h"

namespace mtf::nn {

// How queries are normalized.
enum class QueryNorm : uint8_t {
  kBatchNorm,  // as in the paper
  kLayerNorm,  // each half of a query by itself, as in Mesh TensorFlow
  kNone,
};

struct ProductKeyOptions {
  Dimension heads = {"memory_heads", 4};
  // Of each of the two sets of half keys: the memory has the square of its size
  // as slots, "memory_slots".
  Dimension keys = {"memory_keys", 128};
  // Of a half of a query and of a half key.
  Dimension d_half = {"d_half", 128};
  int64_t neighbours = 32;  // slots that a head reads
  QueryNorm norm = QueryNorm::kBatchNorm;
  std::string name = "product_key_memory";
};

// A memory layer with product keys (Lample et al., 2019): each head reads the
// slots with the greatest products of its query and their keys, and adds their
// values by a softmax of these products. The key of slot i * keys + j is
// half key i of the first set, then half key j of the second, so the best slots
// are found among the pairs of the best half keys, exactly.
//
//   // [batch, length, d_model] -> [batch, length, d_model]
//   x = x + nn::ProductKeyMemory(
//       nn::LayerNorm(x, d_model),
//       {.heads = heads, .keys = {"memory_keys", 256}});
//
// The last dimension of `x` is the model dimension. Parameters are "query" (a
// Dense layer with a bias), "keys" [heads, key_half:2, keys, d_half], uniform
// as in the paper, and "values" [memory_slots, d_model]. A layout shards
// "memory_slots", d_model and heads. Records kInvalidArgument in the graph if
// `x` is not a float or a scalar, a dimension is missing or is one of `x`, or
// `neighbours` is outside [1, keys]. Returns an empty Tensor if `x` is empty.
Tensor ProductKeyMemory(
    Tensor x, ProductKeyOptions options = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LAYERS_PRODUCT_KEY_MEMORY_H_
