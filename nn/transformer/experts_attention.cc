// SPDX-License-Identifier: Apache-2.0
#include "nn/transformer/experts_attention.h"

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/dense.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "ops/index.h"
#include "ops/reshape.h"

namespace mtf::nn {
namespace {

constexpr char kPart[] = "query_or_key";

absl::StatusOr<Dimension> Check(Tensor x, const AttentionOptions& options) {
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, "experts_attention"));
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.length, ".length"));
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.heads, ".heads"));
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.d_kv, ".d_kv"));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(x, options.length));
  if (!options.groups.name.empty() || !options.d_v.name.empty() ||
      options.rotary || options.bias || options.each.rank() > 0) {
    return absl::InvalidArgumentError(
        "attention of experts does not support .groups, .rotary, .d_v, .bias "
        "and .each");
  }
  return internal::ModelDimension(x, {options.length});
}

}  // namespace

Experts ExpertsAttention(Tensor x, Dimension experts, AttentionOptions options,
                         ExpertsOptions routing,
                         std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  const auto d_model = Check(x, options);
  if (!d_model.ok()) {
    return {graph.Fail(d_model.status(),
                       internal::DescribeLayer("attention", options.name),
                       location, x.shape(), x.dtype()),
            {},
            {},
            {},
            {}};
  }
  if (options.memory_length.name.empty()) {
    options.memory_length.name = "memory_length";
  }
  options.memory_length.size = options.length.size;
  Experts result = MixtureOfExperts(
      x, experts,
      [&](Tensor rows) {
        return Dense(rows, {*d_model},
                     {{kPart, 2}, options.heads, options.d_kv},
                     {.bias = false, .each = {experts}, .name = "query_key"});
      },
      routing);
  const Tensor q = Index(result.output, kPart, 0);
  const Tensor k = Rename(Index(result.output, kPart, 1), options.length.name,
                          options.memory_length.name);
  const Tensor y = DotProductAttention(q, k, k,
                                       {.length = options.length,
                                        .memory_length = options.memory_length,
                                        .d_kv = options.d_kv,
                                        .causal = options.causal,
                                        .dropout = options.dropout,
                                        .mask = options.mask,
                                        .bias = options.position_bias,
                                        .window = options.window,
                                        .soft_cap = options.soft_cap,
                                        .scale = options.scale});
  result.output = Dense(y, {options.heads, options.d_kv}, {*d_model},
                        {.bias = false, .name = "output"});
  return result;
}

}  // namespace mtf::nn
