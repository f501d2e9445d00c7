// SPDX-License-Identifier: Apache-2.0
#include "nn/attention/branched_attention.h"

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/attention/attention_weights.h"
#include "nn/attention/projections.h"
#include "nn/layers/dense.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "nn/layers/softmax.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"

namespace mtf::nn {
namespace {

absl::StatusOr<internal::Sides> Check(Tensor x, Tensor memory,
                                      AttentionOptions& options) {
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.heads, ".heads"));
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.d_kv, ".d_kv"));
  if (!options.groups.name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        ".groups is \"", options.groups.name, "\", but each head is a branch"));
  }
  return internal::SidesOf(x, memory, options, "branched_attention");
}

// The softmax over heads of a parameter.
Tensor Shares(Graph& graph, const char* name, const AttentionOptions& options) {
  const Shape shape = options.each.With(options.heads);
  return Softmax(
      Parameter(graph, name, Zeros(graph, kFloat32, shape), kFloat32),
      options.heads);
}

}  // namespace

Tensor BranchedAttention(Tensor x, Dimension d_ff, Activation activation,
                         AttentionOptions options, Tensor memory,
                         std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  const auto sides = Check(x, memory, options);
  if (!sides.ok()) {
    return graph.Fail(
        sides.status(),
        internal::DescribeLayer("branched_attention", options.name), location,
        x.shape(), x.dtype());
  }
  const Dimension d_v = internal::ValueDimension(options.d_kv, options.d_v);
  const Tensor q = internal::ProjectQueries(x, sides->d_model, options);
  const internal::KeysAndValues projected = internal::ProjectMemory(
      sides->memory, sides->d_memory, options.memory_length, options);
  const Tensor heads = internal::AttendToHeads(q, projected, options);
  Tensor y = Dense(heads, {d_v}, {sides->d_model},
                   {.bias = options.bias,
                    .each = options.each.With(options.heads),
                    .name = "output"});
  const Tensor kappa = Shares(graph, "kappa", options);
  const Tensor alpha = Shares(graph, "alpha", options);
  y = FeedForward(y * internal::To(y.dtype(), kappa), d_ff, activation,
                  {.each = options.each});
  return Einsum({y, internal::To(y.dtype(), alpha)}, x.shape());
}

}  // namespace mtf::nn
