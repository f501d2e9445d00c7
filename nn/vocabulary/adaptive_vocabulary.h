// SPDX-License-Identifier: Apache-2.0
//
// Vocabularies in clusters of tokens, by frequency: frequent tokens have wide
// embeddings, rare ones narrow ones. Tokens of a cluster are consecutive, and
// the first cluster has token 0.
#ifndef NN_VOCABULARY_ADAPTIVE_VOCABULARY_H_
#define NN_VOCABULARY_ADAPTIVE_VOCABULARY_H_

#include <cstdint>
#include <source_location>
#include <string>
#include <vector>

#include "mtf/dimension.h"
#include "mtf/graph.h"
#include "mtf/tensor.h"
#include "nn/losses/cross_entropy.h"
#include "nn/vocabulary/factorized_embedding.h"

namespace mtf::nn {

struct VocabularyCluster {
  int64_t tokens = 0;
  // Columns of the embedding, which a matrix projects to d_model; 0: d_model,
  // without a projection.
  int64_t columns = 0;
};

// The tables of the clusters, "cluster_0", "cluster_1", ... The first table may
// have rows for the other clusters after those of its tokens.
struct AdaptiveTable {
  Dimension vocab;  // all tokens
  Dimension d_model;
  std::vector<int64_t> first;  // the first token of each cluster, and vocab
  std::vector<FactorizedTable> clusters;
  bool has_cluster_rows = false;
};

struct AdaptiveTableOptions {
  // Whether the table is for an adaptive softmax, which has a row for each
  // cluster but the first.
  bool softmax = false;
  std::string name = "adaptive_embedding";
};

// The parameters of clusters whose tokens add up to `vocab`.
//
//   const nn::AdaptiveTable table = nn::MakeAdaptiveTable(
//       graph, {"vocab", 50000}, d_model,
//       {{.tokens = 5000}, {.tokens = 15000, .columns = 256},
//        {.tokens = 30000, .columns = 64}});
//
// The dimension of tokens of each cluster has the name of `vocab`, that of
// columns "d_embedding". Records kInvalidArgument in the graph if there are no
// clusters, one has no tokens or negative columns, or the tokens do not add up.
AdaptiveTable MakeAdaptiveTable(
    Graph& graph, Dimension vocab, Dimension d_model,
    const std::vector<VocabularyCluster>& clusters,
    AdaptiveTableOptions options = {},
    std::source_location location = std::source_location::current());

// Adaptive input representations (Baevski and Auli, 2019): the embedding of
// each of the integer `tokens` [...] from the table of its cluster, [...,
// d_model]. A token outside the vocabulary gets 0. Records kInvalidArgument in
// the graph if tokens are not integers. Returns an empty Tensor if `tokens` are
// empty.
Tensor AdaptiveEmbedding(
    Tensor tokens, const AdaptiveTable& table,
    std::source_location location = std::source_location::current());

// The logits [..., vocab] of all clusters side by side, for a plain softmax.
// Records kInvalidArgument in the graph if the table is for an adaptive
// softmax, and for the errors of FactorizedLogits.
Tensor AdaptiveLogits(
    Tensor x, const AdaptiveTable& table,
    std::source_location location = std::source_location::current());

// The logarithms of an adaptive softmax (Grave et al., 2017), f32 [..., vocab]:
//
//   log p(token of the first cluster) = log softmax of the first table
//   log p(token of cluster c) = the same for the row of c
//                               + log softmax of the table of c
//
// Their exponentials add up to 1. Records kInvalidArgument in the graph unless
// the table is for an adaptive softmax, and for the errors of FactorizedLogits.
Tensor AdaptiveLogSoftmax(
    Tensor x, const AdaptiveTable& table,
    std::source_location location = std::source_location::current());

// The cross entropy of the adaptive softmax for `targets` [...], without the
// probabilities of all tokens side by side: each cluster has its
// SoftmaxCrossEntropy, which counts where the target is its own.
//
//   Tensor loss = nn::AdaptiveCrossEntropy(x, table, targets);
//
// Takes the options .weights, .per_position and .z_loss. The work of a cluster
// is that of all positions: shapes do not depend on the data, and Mesh
// TensorFlow, which gathers a given fraction, drops positions beyond it. Also
// records kInvalidArgument if .label_smoothing, .kernel or .blocks is given.
Tensor AdaptiveCrossEntropy(
    Tensor x, const AdaptiveTable& table, Tensor targets,
    CrossEntropyOptions options = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_VOCABULARY_ADAPTIVE_VOCABULARY_H_
