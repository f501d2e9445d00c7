// SPDX-License-Identifier: Apache-2.0
#include "nn/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/attention/projections.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "ops/attention.h"
#include "ops/checks.h"
#include "ops/reshape.h"

namespace mtf::nn {
namespace {

constexpr absl::string_view kMemoryLength = "memory_length";

// Checks the options and the sizes that they give; Attention checks the rest.
absl::Status Check(Tensor q, Tensor k, Tensor v,
                   const DotProductAttentionOptions& options) {
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(q.graph(), {q, k, v}));
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.length, ".length"));
  MTF_RETURN_IF_ERROR(
      internal::CheckGiven(options.memory_length, ".memory_length"));
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.d_kv, ".d_kv"));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(q, options.length));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(q, options.d_kv));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(k, options.memory_length));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(k, options.d_kv));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(v, options.memory_length));
  return internal::CheckDimension(
      v, internal::ValueDimension(options.d_kv, options.d_v));
}

absl::Status Check(Tensor x, Tensor memory, const AttentionOptions& options) {
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(x.graph(), {x, memory}));
  MTF_RETURN_IF_ERROR(internal::CheckQueries(x, options));
  MTF_RETURN_IF_ERROR(
      internal::CheckGiven(options.memory_length, ".memory_length"));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(memory, options.memory_length));
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckLacksLength(x, options.memory_length.name, "memory"));
  return mtf::internal::CheckLacksLength(memory, options.length.name,
                                         "queries");
}

// MultiHeadAttention in the scope of the layer.
Tensor Attend(Tensor x, Tensor memory, const AttentionOptions& options,
              std::source_location location) {
  Graph& graph = *mtf::internal::GraphOf({x, memory});
  const auto fail = [&](const absl::Status& status) {
    return graph.Fail(status,
                      internal::DescribeLayer("attention", options.name),
                      location, x.shape(), x.dtype());
  };
  absl::Status status = x.valid() ? Check(x, memory, options)
                                  : mtf::internal::CheckInputs(graph, {x});
  if (!status.ok()) return fail(status);
  const auto d_model = internal::ModelDimension(x, {options.length});
  if (!d_model.ok()) return fail(d_model.status());
  const auto d_memory =
      internal::ModelDimension(memory, {options.memory_length});
  if (!d_memory.ok()) return fail(d_memory.status());

  const Tensor q = internal::ProjectQueries(x, *d_model, options);
  const internal::KeysAndValues projected = internal::ProjectMemory(
      memory, *d_memory, options.memory_length, options);
  return internal::AttendTo(q, projected, *d_model, options);
}

}  // namespace

Tensor DotProductAttention(Tensor q, Tensor k, Tensor v,
                           DotProductAttentionOptions options,
                           std::source_location location) {
  Graph* graph = mtf::internal::GraphOf({q, k, v});
  if (graph == nullptr) return {};
  LayerScope layer(*graph, "dot_product", location);
  const absl::Status status = q.valid()
                                  ? Check(q, k, v, options)
                                  : mtf::internal::CheckInputs(*graph, {q});
  if (!status.ok()) {
    return graph->Fail(status, "attention", location, q.shape(), q.dtype());
  }
  const double scale = options.scale.value_or(
      1.0 /
      std::sqrt(std::max<double>(1.0, static_cast<double>(options.d_kv.size))));
  return Attention(
             {.q = q,
              .k = k,
              .v = v,
              .mask = options.mask,
              .bias = options.bias,
              .offset = options.offset,
              .extra_logit = options.extra_logit},
             {.length = options.length.name,
              .memory_length = options.memory_length.name,
              .d_kv = options.d_kv.name,
              .d_v = internal::ValueDimension(options.d_kv, options.d_v).name,
              .scale = scale,
              .soft_cap = options.soft_cap,
              .causal = options.causal,
              .window = options.window,
              .dropout = options.dropout},
             location)
      .output;
}

Tensor MultiHeadAttention(Tensor x, Tensor memory, AttentionOptions options,
                          std::source_location location) {
  Graph* graph = mtf::internal::GraphOf({x, memory});
  if (graph == nullptr) return {};
  LayerScope layer(*graph, options.name, location);
  return Attend(x, memory, options, location);
}

Tensor SelfAttention(Tensor x, AttentionOptions options,
                     std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  absl::Status status = internal::CheckGiven(options.length, ".length");
  if (status.ok()) status = internal::CheckDimension(x, options.length);
  if (!status.ok()) {
    return graph.Fail(status,
                      internal::DescribeLayer("attention", options.name),
                      location, x.shape(), x.dtype());
  }
  if (options.memory_length.name.empty()) {
    options.memory_length.name = std::string(kMemoryLength);
  }
  options.memory_length.size = options.length.size;
  // Rename once for keys and values, so that their gradients are added before
  // they are resharded to the layout of `x`.
  const Tensor memory =
      Rename(x, options.length.name, options.memory_length.name);
  return Attend(x, memory, options, location);
}

}  // namespace mtf::nn
