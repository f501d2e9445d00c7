// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_EMBEDDING_H_
#define NN_LAYERS_EMBEDDING_H_

#include <optional>
#include <source_location>
#include <string>

#include "mtf/dimension.h"
#include "mtf/dtype.h"
#include "mtf/graph.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"
#include "nn/layers/initializers.h"

namespace mtf::nn {

struct EmbeddingOptions {
  double stddev = 1.0;  // of the normal initial values
  // Used instead of `stddev` if not null (nn/layers/initializers.h), for a
  // kernel from the vocabulary to the model dimension.
  Initializer init = nullptr;
  // The dtype of the result. Empty: the activation dtype of the PrecisionScope,
  // or f32.
  std::optional<DType> dtype = std::nullopt;
  Tensor table = Tensor();  // used instead of new parameters if not empty
  // Dimensions with a table of its own for each element, such as the members of
  // an ensemble. They come first in the shape of the table. If the tokens lack
  // one, the result has it before d_model.
  Shape each = Shape();
  std::string name = "embedding";
};

// Looks up the row of a table [vocab, d_model] for each of the integer
// `tokens`.
//
//   // [batch, length] -> [batch, length, d_model]
//   Tensor x = nn::Embedding(tokens, vocab, d_model);
//
// A token outside the vocabulary ends the step with kOutOfRange.
//
// Records kInvalidArgument in the graph if `tokens` are not integers or have
// the dimension `vocab` or `d_model`; if the result dtype is not a float; if
// the table is not a float, is not [each..., vocab, d_model] in some order, or
// belongs to another graph; or, without a table, if stddev is negative or not
// finite or is given together with init. Returns an empty Tensor if `tokens`
// are empty.
Tensor Embedding(
    Tensor tokens, Dimension vocab, Dimension d_model,
    EmbeddingOptions options = {},
    std::source_location location = std::source_location::current());

// A table [each..., vocab, d_model] of parameters that several layers share.
// Uses the options `stddev`, `init`, `each` and `name`.
//
//   Tensor table = nn::EmbeddingTable(graph, vocab, d_model);
//   Tensor x = nn::Embedding(tokens, vocab, d_model, {.table = table});
//   Tensor loss = nn::CrossEntropy(x, vocab, targets, {.kernel = table});
//
// Records kInvalidArgument in the graph if the dimensions have the same name or
// Shape::Validate rejects the shape; if stddev is negative or not finite,
// or is given together with init; if a
// table is given; or if a dtype is given that is not the parameter dtype of the
// PrecisionScope, by default f32.
Tensor EmbeddingTable(
    Graph& graph, Dimension vocab, Dimension d_model,
    EmbeddingOptions options = {},
    std::source_location location = std::source_location::current());

struct PositionEmbeddingOptions {
  double stddev = 0.02;  // of the normal initial values
  // The rows of the table, at least as many as `length`, whose positions have
  // the first ones: a model of 1024 positions reads shorter sequences. Without
  // a name: `length`.
  Dimension rows = Dimension();
  // Dimensions of `x` with a table of its own for each element.
  Shape each = Shape();
  std::string name = "position_embedding";
};

// Adds a table [length, d_model] of parameters, with one row per position, to
// `x`. Keeps the shape. The dtype is the activation dtype of the
// PrecisionScope, by default the dtype of `x`.
//
//   x = nn::PositionEmbedding(x, length, d_model);
//
// Records kInvalidArgument in the graph if `x` is not a float, lacks one of the
// two dimensions or has it in another size; if stddev is negative or not
// finite; or if .rows is shorter than `length` or has its name. Returns an
// empty Tensor if `x` is empty.
Tensor PositionEmbedding(
    Tensor x, Dimension length, Dimension d_model,
    PositionEmbeddingOptions options = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LAYERS_EMBEDDING_H_
