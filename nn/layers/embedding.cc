// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/embedding.h"

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/random.h"
#include "ops/reshape.h"
#include "ops/slice.h"

namespace mtf::nn {
namespace {

Tensor NewTable(Graph& graph, const Shape& each, const Dimension& rows,
                const Dimension& d_model, double stddev,
                const Initializer& init, DType dtype) {
  const KernelShape shape = {each, {rows}, {d_model}};
  const Tensor initial =
      init == nullptr
          ? RandomNormal(graph, shape.Joined(), 0, stddev, {.per_step = false})
          : internal::InitialValue(graph, init, shape, "table");
  return Parameter(graph, "table", initial, dtype);
}

absl::Status CheckInit(const EmbeddingOptions& options) {
  if (options.stddev == EmbeddingOptions().stddev) return absl::OkStatus();
  return internal::CheckUnused(".stddev", options.init);
}

DType ResultDType(const Graph& graph, const EmbeddingOptions& options) {
  return options.dtype.value_or(
      graph.precision().activations.value_or(kFloat32));
}

absl::Status Check(Tensor tokens, const Dimension& vocab,
                   const Dimension& d_model, const EmbeddingOptions& options) {
  MTF_RETURN_IF_ERROR(internal::CheckInteger(tokens, "tokens"));
  const Shape rows = internal::Join(options.each, {vocab, d_model});
  MTF_RETURN_IF_ERROR(rows.Validate());
  for (const Dimension& dim : {vocab, d_model}) {
    if (!tokens.shape().Contains(dim.name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("dimension \"", dim.name, "\" of the table is also in \"",
                     tokens.name(), "\"", DescribeInputs({tokens})));
  }
  const DType dtype = ResultDType(tokens.graph(), options);
  if (!IsFloat(dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("an embedding has a float dtype, not ", DTypeName(dtype)));
  }
  if (!options.table.valid()) return CheckInit(options);
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckInputs(tokens.graph(), {options.table}));
  MTF_RETURN_IF_ERROR(internal::CheckFloat(options.table, "the table"));
  if (options.table.shape().SameDimensions(rows)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the table is [", options.table.shape().ToString(), "], not [",
      rows.ToString(), "]", DescribeInputs({options.table})));
}

absl::Status CheckPositions(Tensor x, const Dimension& length,
                            const Dimension& d_model, const Dimension& rows,
                            const Shape& each) {
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, "position_embedding"));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(x, length));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(x, d_model));
  for (const Dimension& own : each) {
    MTF_RETURN_IF_ERROR(internal::CheckDimension(x, own));
  }
  if (rows.name.empty()) return absl::OkStatus();
  if (rows.name == length.name || rows.size < length.size) {
    return absl::InvalidArgumentError(absl::StrCat(
        ".rows is \"", rows.name, "\" of ", rows.size, " positions, but \"",
        length.name, "\" has ", length.size, DescribeInputs({x}),
        "\n  help     give .rows another name and at least as many positions"));
  }
  return absl::OkStatus();
}

}  // namespace

Tensor EmbeddingTable(Graph& graph, Dimension vocab, Dimension d_model,
                      EmbeddingOptions options, std::source_location location) {
  LayerScope layer(graph, options.name, location);
  const DType dtype = graph.precision().parameters;
  absl::Status status = CheckInit(options);
  if (options.table.valid()) {
    status = absl::InvalidArgumentError(
        absl::StrCat("EmbeddingTable() creates a table and takes none",
                     DescribeInputs({options.table}),
                     "\n  help     give .table to Embedding()"));
  } else if (options.dtype.value_or(dtype) != dtype) {
    status = absl::InvalidArgumentError(absl::StrCat(
        "a table is ", DTypeName(dtype), ", not ", DTypeName(*options.dtype),
        "\n  help     give .dtype, that of the result, to Embedding()"));
  }
  if (!status.ok()) {
    return graph.Fail(status,
                      internal::DescribeLayer("embedding_table", options.name),
                      location, internal::Join(options.each, {vocab, d_model}));
  }
  return NewTable(graph, options.each, vocab, d_model, options.stddev,
                  options.init, dtype);
}

Tensor Embedding(Tensor tokens, Dimension vocab, Dimension d_model,
                 EmbeddingOptions options, std::source_location location) {
  if (!tokens.valid()) return {};
  Graph& graph = tokens.graph();
  LayerScope layer(graph, options.name, location);
  const absl::Status status = Check(tokens, vocab, d_model, options);
  if (!status.ok()) {
    return graph.Fail(
        status, internal::DescribeLayer("embedding", options.name), location,
        internal::Join(tokens.shape(), {d_model}), ResultDType(graph, options));
  }
  Tensor table = options.table;
  if (!table.valid()) {
    table = NewTable(graph, options.each, vocab, d_model, options.stddev,
                     options.init, graph.precision().parameters);
  }
  const Tensor rows = Gather(table, tokens, vocab.name);
  // Cast after the lookup: the result has fewer elements than the table.
  return internal::To(ResultDType(graph, options), rows);
}

Tensor PositionEmbedding(Tensor x, Dimension length, Dimension d_model,
                         PositionEmbeddingOptions options,
                         std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  const absl::Status status =
      CheckPositions(x, length, d_model, options.rows, options.each);
  if (!status.ok()) {
    return graph.Fail(
        status, internal::DescribeLayer("position_embedding", options.name),
        location, x.shape(), x.dtype());
  }
  x = internal::To(ActivationDType(x), x);
  const bool has_rows = !options.rows.name.empty();
  Tensor table = NewTable(graph, options.each, has_rows ? options.rows : length,
                          d_model, options.stddev, nullptr, x.dtype());
  if (has_rows) {
    table = Rename(Slice(table, options.rows.name, 0, length.size),
                   options.rows.name, length.name);
  }
  return x + table;
}

}  // namespace mtf::nn
