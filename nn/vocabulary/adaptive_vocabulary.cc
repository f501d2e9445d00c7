// SPDX-License-Identifier: Apache-2.0
#include "nn/vocabulary/adaptive_vocabulary.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/softmax.h"
#include "nn/losses/position_weights.h"
#include "ops/checks.h"
#include "ops/concat.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/slice.h"

namespace mtf::nn {
namespace {

absl::Status CheckClusters(const Dimension& vocab,
                           const std::vector<VocabularyCluster>& clusters) {
  int64_t sum = 0;
  for (size_t i = 0; i < clusters.size(); ++i) {
    const auto& [tokens, columns] = clusters[i];
    if (tokens < 1 || columns < 0 || tokens > vocab.size - sum) {
      return absl::InvalidArgumentError(
          absl::StrCat("cluster ", i, " has ", tokens, " tokens and ", columns,
                       " columns, after ", sum, " of ", vocab.size, " tokens"));
    }
    sum += tokens;
  }
  if (sum == vocab.size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the clusters have ", sum,
                                                 " tokens, but \"", vocab.name,
                                                 "\" is ", vocab.size));
}

absl::Status CheckKind(const AdaptiveTable& table, bool softmax) {
  if (table.clusters.empty()) {
    return absl::InvalidArgumentError("the table has no clusters");
  }
  if (table.has_cluster_rows == softmax || table.clusters.size() == 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the table is ", softmax ? "not " : "",
      "for an adaptive softmax\n  help     set .softmax of MakeAdaptiveTable ",
      "for AdaptiveLogSoftmax and AdaptiveCrossEntropy only"));
}

// Whether each token is one of cluster `c`.
Tensor IsIn(Tensor tokens, const AdaptiveTable& table, size_t c) {
  return LogicalAnd(GreaterEqual(tokens, static_cast<double>(table.first[c])),
                    Less(tokens, static_cast<double>(table.first[c + 1])));
}

// The index of each token within cluster `c`, or 0.
Tensor IndexIn(Tensor tokens, const AdaptiveTable& table, size_t c,
               Tensor is_in) {
  return Select(is_in, tokens - static_cast<double>(table.first[c]),
                Like(tokens, 0));
}

// The target of the first softmax: the token, or the row of its cluster.
Tensor FirstTarget(Tensor targets, const AdaptiveTable& table) {
  Tensor target = targets;
  for (size_t c = 1; c < table.clusters.size(); ++c) {
    const int64_t row = table.first[1] + static_cast<int64_t>(c) - 1;
    target = Select(IsIn(targets, table, c),
                    Like(targets, static_cast<double>(row)), target);
  }
  return target;
}

absl::Status CheckLoss(const CrossEntropyOptions& options) {
  if (options.label_smoothing == 0 && !options.kernel.valid() &&
      options.blocks == 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "an adaptive softmax has no .label_smoothing, .kernel and .blocks");
}

}  // namespace

AdaptiveTable MakeAdaptiveTable(Graph& graph, Dimension vocab,
                                Dimension d_model,
                                const std::vector<VocabularyCluster>& clusters,
                                AdaptiveTableOptions options,
                                std::source_location location) {
  LayerScope layer(graph, options.name, location);
  AdaptiveTable table = {vocab, d_model, {0}, {}, options.softmax};
  const absl::Status status = CheckClusters(vocab, clusters);
  if (!status.ok()) {
    graph.Fail(status, internal::DescribeLayer("adaptive_table", options.name),
               location);
    return table;
  }
  for (size_t c = 0; c < clusters.size(); ++c) {
    int64_t rows = clusters[c].tokens;
    if (c == 0 && options.softmax) {
      rows += static_cast<int64_t>(clusters.size()) - 1;
    }
    const Dimension columns =
        clusters[c].columns == 0
            ? d_model
            : Dimension{"d_embedding", clusters[c].columns};
    table.clusters.push_back(
        MakeFactorizedTable(graph, {vocab.name, rows}, columns, d_model,
                            {.name = absl::StrCat("cluster_", c)}));
    table.first.push_back(table.first.back() + clusters[c].tokens);
  }
  return table;
}

Tensor AdaptiveEmbedding(Tensor tokens, const AdaptiveTable& table,
                         std::source_location location) {
  if (!tokens.valid()) return {};
  Graph& graph = tokens.graph();
  LayerScope layer(graph, "adaptive_embedding", location);
  absl::Status status = internal::CheckInteger(tokens, "tokens");
  if (status.ok()) status = CheckKind(table, table.has_cluster_rows);
  if (!status.ok()) {
    return graph.Fail(status, "adaptive_embedding", location,
                      internal::Join(tokens.shape(), {table.d_model}));
  }
  Tensor sum;
  for (size_t c = 0; c < table.clusters.size(); ++c) {
    const Tensor is_in = IsIn(tokens, table, c);
    const Tensor rows = FactorizedEmbedding(IndexIn(tokens, table, c, is_in),
                                            table.clusters[c]);
    const Tensor own = Select(is_in, rows, 0.0);
    sum = sum.valid() ? sum + own : own;
  }
  return mtf::internal::InOrderOf(
      sum, internal::Join(tokens.shape(), {table.d_model}));
}

Tensor AdaptiveLogits(Tensor x, const AdaptiveTable& table,
                      std::source_location location) {
  if (!x.valid()) return {};
  LayerScope layer(x.graph(), "adaptive_logits", location);
  const absl::Status status = CheckKind(table, false);
  if (!status.ok()) {
    return x.graph().Fail(status, "adaptive_logits", location, x.shape(),
                          x.dtype());
  }
  std::vector<Tensor> logits;
  for (const FactorizedTable& cluster : table.clusters) {
    logits.push_back(FactorizedLogits(x, cluster));
  }
  return Concat(std::move(logits), table.vocab.name);
}

Tensor AdaptiveLogSoftmax(Tensor x, const AdaptiveTable& table,
                          std::source_location location) {
  if (!x.valid()) return {};
  LayerScope layer(x.graph(), "adaptive_log_softmax", location);
  const absl::Status status = CheckKind(table, true);
  if (!status.ok()) {
    return x.graph().Fail(status, "adaptive_log_softmax", location, x.shape());
  }
  const std::string& vocab = table.vocab.name;
  const auto log_softmax = [&](const FactorizedTable& cluster) {
    return LogSoftmax(internal::To(kFloat32, FactorizedLogits(x, cluster)),
                      cluster.vocab);
  };
  const Tensor first = log_softmax(table.clusters[0]);
  std::vector<Tensor> logs = {Slice(first, vocab, 0, table.first[1])};
  for (size_t c = 1; c < table.clusters.size(); ++c) {
    const Tensor of_cluster =
        Index(first, vocab, table.first[1] + static_cast<int64_t>(c) - 1);
    logs.push_back(log_softmax(table.clusters[c]) + of_cluster);
  }
  return Concat(std::move(logs), vocab);
}

Tensor AdaptiveCrossEntropy(Tensor x, const AdaptiveTable& table,
                            Tensor targets, CrossEntropyOptions options,
                            std::source_location location) {
  Graph* graph = mtf::internal::GraphOf({x, targets});
  if (graph == nullptr) return {};
  LayerScope layer(*graph, options.name, location);
  absl::Status status = mtf::internal::CheckInputs(*graph, {x, targets});
  if (status.ok()) status = CheckKind(table, true);
  if (status.ok()) status = CheckLoss(options);
  if (status.ok()) status = internal::CheckInteger(targets, "targets");
  if (status.ok()) status = internal::CheckWeights(options.weights, targets);
  if (!status.ok()) {
    return graph->Fail(
        status, internal::DescribeLayer("adaptive_cross_entropy", options.name),
        location);
  }
  const Shape positions = targets.shape();
  const Tensor factors =
      internal::FactorsOf(positions, options.weights, options.per_position);
  Tensor loss;
  for (size_t c = 0; c < table.clusters.size(); ++c) {
    const FactorizedTable& cluster = table.clusters[c];
    const Tensor is_in = IsIn(targets, table, c);
    const Tensor target = c == 0 ? FirstTarget(targets, table)
                                 : IndexIn(targets, table, c, is_in);
    CrossEntropyOptions own;
    own.z_loss = options.z_loss;
    own.per_position = true;
    own.name = absl::StrCat("cluster_", c);
    Tensor of_cluster = SoftmaxCrossEntropy(FactorizedLogits(x, cluster),
                                            cluster.vocab, target, own);
    if (c > 0) of_cluster = Select(is_in, of_cluster, 0.0);
    loss = loss.valid() ? loss + of_cluster : of_cluster;
  }
  return internal::Reduce(loss, factors, options.per_position);
}

}  // namespace mtf::nn
