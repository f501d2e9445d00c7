// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_EMBEDDING_H_
#define NN_LAYERS_EMBEDDING_H_

#include <optional>
#include <source_location>
#include <string>

#include "mtf/dimension.h"
#include "mtf/dtype.h"
#include "mtf/graph.h"
#include "mtf/tensor.h"

namespace mtf::nn {

struct EmbeddingOptions {
  double stddev = 1.0;  // of the normal initial values
  // Of the result. Empty: the activations' of the precision, or f32.
  std::optional<DType> dtype = std::nullopt;
  Tensor table = Tensor();  // to use instead of new parameters
  // The dimension of `tokens`, if they have one of this name, that is
  // "block_length" inside, as in FeedForward.
  std::string length = "length";
  std::string name = "embedding";
};

// The row of a table [vocab, d_model] for each of the integer `tokens`.
//
//   // [batch, length] -> [batch, length, d_model]
//   Tensor x = nn::Embedding(tokens, vocab, d_model);
//
// A token outside of the vocabulary ends the step with kOutOfRange.
// kInvalidArgument, as the graph's first error (Graph::status(),
// Session::Create), for tokens that are no integer or have the dimension
// `vocab` or `d_model`, a result dtype that is no float, a table that is no
// float, not [vocab, d_model] in any order, or of another graph, and without a
// table a stddev that is negative or not finite. Empty `tokens` give an empty
// Tensor.
Tensor Embedding(
    Tensor tokens, Dimension vocab, Dimension d_model,
    EmbeddingOptions options = {},
    std::source_location location = std::source_location::current());

// A table [vocab, d_model] of parameters, for use in several places. Of the
// options it takes `stddev` and `name`; a table and a dtype are errors.
//
//   Tensor table = nn::EmbeddingTable(graph, vocab, d_model);
//   Tensor x = nn::Embedding(tokens, vocab, d_model, {.table = table});
//   Tensor loss = nn::CrossEntropy(x, vocab, targets, {.kernel = table});
//
// kInvalidArgument for two dimensions of one name, or else a shape that
// Shape::Validate refuses, a stddev that is negative or not finite, a table,
// and a dtype other than that of parameters (PrecisionScope), by default f32.
Tensor EmbeddingTable(
    Graph& graph, Dimension vocab, Dimension d_model,
    EmbeddingOptions options = {},
    std::source_location location = std::source_location::current());

struct PositionEmbeddingOptions {
  double stddev = 0.02;  // of the normal initial values
  std::string name = "position_embedding";
};

// `x` plus a table [length, d_model] of parameters: one row for each position.
// The result has the shape of `x`, and the activations' dtype of the precision
// (PrecisionScope), by default that of `x`.
//
//   x = nn::PositionEmbedding(x, length, d_model);
//
// kInvalidArgument for an x that is no float, or that lacks one of the two
// dimensions or has it in another size, and a stddev that is negative or not
// finite. An empty `x` gives an empty Tensor.
Tensor PositionEmbedding(
    Tensor x, Dimension length, Dimension d_model,
    PositionEmbeddingOptions options = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LAYERS_EMBEDDING_H_
