// SPDX-License-Identifier: Apache-2.0
//
// Tables of embeddings that are products of two matrices, so that a large
// vocabulary has few parameters (ALBERT, Lan et al., 2020).
#ifndef NN_VOCABULARY_FACTORIZED_EMBEDDING_H_
#define NN_VOCABULARY_FACTORIZED_EMBEDDING_H_

#include <source_location>
#include <string>

#include "mtf/dimension.h"
#include "mtf/graph.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf::nn {

// A table [vocab, d_model] = table [vocab, inner] * projection [inner,
// d_model].
struct FactorizedTable {
  Dimension vocab, inner, d_model;
  Tensor table;
  Tensor projection;  // empty: inner is d_model
};

struct FactorizedTableOptions {
  // Dimensions with a table of its own for each element, such as the members of
  // an ensemble.
  Shape each = Shape();
  std::string name = "factorized_embedding";
};

// The parameters "table" and "projection", normal with deviation inner^-0.25,
// so that their product has variance 1. If `inner` and `d_model` are one
// dimension, there is no projection.
//
//   const nn::FactorizedTable table =
//       nn::MakeFactorizedTable(graph, vocab, {"d_embedding", 128}, d_model);
//   Tensor x = nn::FactorizedEmbedding(tokens, table);
//   Tensor logits = nn::FactorizedLogits(y, table);
//
// Records kInvalidArgument in the graph if Shape::Validate rejects a shape.
FactorizedTable MakeFactorizedTable(
    Graph& graph, Dimension vocab, Dimension inner, Dimension d_model,
    FactorizedTableOptions options = {},
    std::source_location location = std::source_location::current());

// The rows of the product for the integer `tokens` [...]: [..., d_model].
// Errors are those of Gather. Returns an empty Tensor if `tokens` are empty.
Tensor FactorizedEmbedding(
    Tensor tokens, const FactorizedTable& table,
    std::source_location location = std::source_location::current());

// The products of `x` [..., d_model] with the rows: [..., vocab]. (Mesh
// TensorFlow also divides by sqrt(d_model), which here is the caller's.)
// Records kInvalidArgument in the graph if `x` is not a float or lacks d_model.
// Returns an empty Tensor if `x` is empty.
Tensor FactorizedLogits(
    Tensor x, const FactorizedTable& table,
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_VOCABULARY_FACTORIZED_EMBEDDING_H_
