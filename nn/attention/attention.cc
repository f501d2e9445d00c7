// SPDX-License-Identifier: Apache-2.0
#include "nn/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/dense.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "ops/attention.h"
#include "ops/checks.h"
#include "ops/reshape.h"

namespace mtf::nn {
namespace {

constexpr absl::string_view kMemoryLength = "memory_length";

// The dimension of the values.
const Dimension& ValueDimension(const Dimension& d_kv, const Dimension& d_v) {
  return d_v.name.empty() ? d_kv : d_v;
}

// Whether attention accepts the mask, which may be empty.
bool MaskFits(Tensor mask, const Shape& logits) {
  if (!mask.valid()) return true;
  return mask.dtype() == kBool &&
         std::all_of(mask.shape().begin(), mask.shape().end(),
                     [&](const Dimension& dim) {
                       return logits.Contains(dim.name) &&
                              logits.SizeOf(dim.name) == dim.size;
                     });
}

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
  return internal::CheckDimension(v, ValueDimension(options.d_kv, options.d_v));
}

absl::Status Check(Tensor x, Tensor memory, const AttentionOptions& options) {
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(x.graph(), {x, memory}));
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.length, ".length"));
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.heads, ".heads"));
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.d_kv, ".d_kv"));
  MTF_RETURN_IF_ERROR(
      internal::CheckGiven(options.memory_length, ".memory_length"));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(x, options.length));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(memory, options.memory_length));
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckLacksLength(x, options.memory_length.name, "memory"));
  return mtf::internal::CheckLacksLength(memory, options.length.name,
                                         "queries");
}

// Whether attention accepts `x` [..., d_model] and a memory of shape `memory`.
// Otherwise second names are not used, so that the error has the user's names.
bool Fits(Tensor x, const Shape& memory, const AttentionOptions& options) {
  for (const Dimension& dim :
       {options.length, options.memory_length, options.heads, options.d_kv}) {
    if (dim.name.empty()) return false;
  }
  if (!IsFloat(x.dtype()) || x.shape().rank() < 2 || memory.rank() < 2) {
    return false;
  }
  const Shape rows = x.shape().Without(x.shape().dims().back().name);
  const Shape kept = memory.Without(memory.dims().back().name)
                         .Without(options.memory_length.name);
  for (const Dimension& dim : {options.heads, options.d_kv,
                               ValueDimension(options.d_kv, options.d_v)}) {
    if (rows.Contains(dim.name) || memory.Contains(dim.name)) return false;
  }
  for (const Dimension& dim : kept) {
    if (!rows.Contains(dim.name)) return false;
  }
  const auto has = [](const Shape& shape, const Dimension& dim) {
    return shape.Contains(dim.name) && shape.SizeOf(dim.name) == dim.size;
  };
  return has(rows, options.length) && has(memory, options.memory_length) &&
         !rows.Contains(options.memory_length.name) &&
         !kept.Contains(options.length.name) &&
         MaskFits(options.mask,
                  internal::Join(
                      rows.Without(options.length.name),
                      {options.heads, options.length, options.memory_length}));
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
  return Attention({.q = q,
                    .k = k,
                    .v = v,
                    .mask = options.mask,
                    .bias = options.bias,
                    .offset = options.offset,
                    .extra_logit = options.extra_logit},
                   {.length = options.length.name,
                    .memory_length = options.memory_length.name,
                    .d_kv = options.d_kv.name,
                    .d_v = ValueDimension(options.d_kv, options.d_v).name,
                    .scale = scale,
                    .soft_cap = options.soft_cap,
                    .causal = options.causal,
                    .window = options.window,
                    .dropout = options.dropout},
                   location)
      .output;
}

namespace {

// The second names within the layer, and between its projections. None unless
// `fits`.
struct AttentionNames {
  internal::LayerSecondNames block;
  internal::LayerSecondNames::Pairs core;

  AttentionNames(Tensor x, const Shape& memory, const AttentionOptions& options,
                 bool fits) {
    if (!fits) return;
    const std::string& length = options.length.name;
    const std::string in_block = internal::InBlock(length);
    // The user may have given the second name to another dimension.
    const bool taken =
        memory.Contains(in_block) || options.heads.name == in_block ||
        options.d_kv.name == in_block || options.d_v.name == in_block;
    if (!taken) block = {{{length, in_block}}, {x, options.mask}};
    const auto add = [this](const std::string& first, const std::string& name) {
      core.emplace_back(first, absl::StrCat("attention_", name));
    };
    add(block.Enter(options.length).name, length);
    add(options.memory_length.name, options.memory_length.name);
    add(options.heads.name, options.heads.name);
  }
};

// MultiHeadAttention of an `x` that already has its second names.
Tensor Attend(Tensor x, Tensor memory, AttentionOptions options,
              const internal::LayerSecondNames::Pairs& core,
              std::source_location location) {
  Graph* graph = mtf::internal::GraphOf({x, memory});
  if (graph == nullptr) return {};
  LayerScope layer(*graph, options.name, location);
  const auto fail = [&](const absl::Status& status) {
    return graph->Fail(status,
                       internal::DescribeLayer("attention", options.name),
                       location, x.shape(), x.dtype());
  };
  absl::Status status = x.valid() ? Check(x, memory, options)
                                  : mtf::internal::CheckInputs(*graph, {x});
  if (!status.ok()) return fail(status);
  const auto d_model = internal::ModelDimension(x, {options.length});
  if (!d_model.ok()) return fail(d_model.status());
  const auto d_memory =
      internal::ModelDimension(memory, {options.memory_length});
  if (!d_memory.ok()) return fail(d_memory.status());

  const Dimension& d_v = ValueDimension(options.d_kv, options.d_v);
  const auto project = [&](Tensor t, const Dimension& dim, const Dimension& d,
                           const char* name) {
    return Dense(t, {dim}, {options.heads, d},
                 {.bias = options.bias, .name = name});
  };
  const Tensor q = project(x, *d_model, options.d_kv, "query");
  const Tensor k = project(memory, *d_memory, options.d_kv, "key");
  const Tensor v = project(memory, *d_memory, d_v, "value");
  const internal::LayerSecondNames names(core, {q, k, options.mask});
  const Tensor queries = names.Enter(q), keys = names.Enter(k),
               values = names.Enter(v), mask = names.Enter(options.mask);
  const Tensor y =
      DotProductAttention(queries, keys, values,
                          {.length = names.Enter(options.length),
                           .memory_length = names.Enter(options.memory_length),
                           .d_kv = options.d_kv,
                           .d_v = options.d_v,
                           .causal = options.causal,
                           .dropout = options.dropout,
                           .mask = mask});
  return Dense(names.Leave(y), {options.heads, d_v}, {*d_model},
               {.bias = options.bias, .name = "output"});
}

}  // namespace

Tensor MultiHeadAttention(Tensor x, Tensor memory, AttentionOptions options,
                          std::source_location location) {
  Graph* graph = mtf::internal::GraphOf({x, memory});
  if (graph == nullptr) return {};
  CallSiteScope site(*graph, location);
  const bool fits = x.valid() && memory.valid() &&
                    &x.graph() == &memory.graph() &&
                    Fits(x, memory.shape(), options);
  const AttentionNames names(x, memory.valid() ? memory.shape() : Shape(),
                             options, fits);
  options.length = names.block.Enter(options.length);
  options.mask = names.block.Enter(options.mask);
  x = names.block.Enter(x);
  return names.block.Leave(Attend(x, memory, options, names.core, location));
}

Tensor SelfAttention(Tensor x, AttentionOptions options,
                     std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  CallSiteScope site(graph, location);
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
  const Shape memory_shape =
      x.shape().Renamed(options.length.name, options.memory_length.name);
  const AttentionNames names(x, memory_shape, options,
                             Fits(x, memory_shape, options));
  options.length = names.block.Enter(options.length);
  options.mask = names.block.Enter(options.mask);
  x = names.block.Enter(x);
  // Rename once for keys and values, so that their gradients are added before
  // they are resharded to the layout of `x`.
  const Tensor memory =
      Rename(x, options.length.name, options.memory_length.name);
  return names.block.Leave(Attend(x, memory, options, names.core, location));
}

}  // namespace mtf::nn
