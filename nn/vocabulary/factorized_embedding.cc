// SPDX-License-Identifier: Apache-2.0
#include "nn/vocabulary/factorized_embedding.h"

#include <algorithm>
#include <cmath>

#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "ops/checks.h"
#include "ops/einsum.h"
#include "ops/gather.h"
#include "ops/random.h"

namespace mtf::nn {

FactorizedTable MakeFactorizedTable(Graph& graph, Dimension vocab,
                                    Dimension inner, Dimension d_model,
                                    FactorizedTableOptions options,
                                    std::source_location location) {
  LayerScope layer(graph, options.name, location);
  const bool is_product = inner != d_model;
  const double size =
      static_cast<double>(std::max<int64_t>(inner.size, int64_t{1}));
  const double stddev = is_product ? std::pow(size, -0.25) : 1.0;
  const auto parameter = [&](const char* name, const Shape& shape) {
    const Shape all = internal::Join(options.each, shape);
    return Parameter(graph, name,
                     RandomNormal(graph, all, 0, stddev, {.per_step = false}),
                     graph.precision().activations.value_or(kFloat32));
  };
  FactorizedTable result = {vocab, inner, d_model, {}, {}};
  result.table = parameter("table", {vocab, inner});
  if (is_product) result.projection = parameter("projection", {inner, d_model});
  return result;
}

Tensor FactorizedEmbedding(Tensor tokens, const FactorizedTable& table,
                           std::source_location location) {
  if (!tokens.valid()) return {};
  LayerScope layer(tokens.graph(), "factorized_embedding", location);
  const Tensor rows = Gather(table.table, tokens, table.vocab.name);
  if (!table.projection.valid()) return rows;
  return Einsum({rows, table.projection},
                rows.shape().Without(table.inner.name).With(table.d_model));
}

Tensor FactorizedLogits(Tensor x, const FactorizedTable& table,
                        std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, "factorized_logits", location);
  absl::Status status = internal::CheckFloat(x, "factorized_logits");
  if (status.ok()) status = internal::CheckDimension(x, table.d_model);
  if (status.ok()) status = mtf::internal::CheckInputs(graph, {table.table});
  if (!status.ok()) {
    return graph.Fail(status, "factorized_logits", location,
                      x.shape().Without(table.d_model.name).With(table.vocab),
                      x.dtype());
  }
  const DType dtype = ActivationDType(x);
  x = internal::To(dtype, x);
  Shape positions = x.shape().Without(table.d_model.name);
  if (table.projection.valid()) {
    x = Einsum({x, internal::To(dtype, table.projection)},
               positions.With(table.inner));
  }
  return Einsum({x, internal::To(dtype, table.table)},
                positions.With(table.vocab));
}

}  // namespace mtf::nn
