// SPDX-License-Identifier: Apache-2.0
#include "nn/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/dense.h"
#include "nn/layer.h"
#include "nn/softmax.h"
#include "ops/checks.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/one_hot.h"
#include "ops/random.h"
#include "ops/reshape.h"

namespace mtf::nn {
namespace {

constexpr absl::string_view kMemoryLength = "memory_length";

// `x` lacks the dimension `name`, which belongs to the other side of attention.
absl::Status CheckLacks(Tensor x, absl::string_view name,
                        absl::string_view side) {
  if (!x.shape().Contains(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("dimension \"", name, "\" of the ", side, " is also in \"",
                   x.name(), "\", which needs a length of its own",
                   DescribeInputs({x}), "\n  help     Rename() one of them"));
}

Shape LogitShape(Tensor q, const DotProductAttentionOptions& options) {
  return internal::Join(
      q.shape().Without(options.length.name).Without(options.d_kv.name),
      {options.length, options.memory_length});
}

absl::Status CheckMask(Tensor mask, const Shape& logits) {
  if (!mask.valid()) return absl::OkStatus();
  if (mask.dtype() != kBool) {
    return absl::InvalidArgumentError(
        absl::StrCat("the mask is ", DTypeName(mask.dtype()), ", not bool",
                     DescribeInputs({mask})));
  }
  for (const Dimension& dim : mask.shape()) {
    if (logits.Contains(dim.name) && logits.SizeOf(dim.name) == dim.size) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "dimension \"", dim.name, "\" (", dim.size,
        ") of the mask is not one of the attention's", DescribeInputs({mask}),
        "\n  logits   [", logits.ToString(), "]"));
  }
  return absl::OkStatus();
}

absl::Status Check(Tensor q, Tensor k, Tensor v,
                   const DotProductAttentionOptions& options) {
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(q.graph(), {q, k, v}));
  MTF_RETURN_IF_ERROR(internal::CheckFloat(q, "attention"));
  MTF_RETURN_IF_ERROR(mtf::internal::CheckOneDType({q, k, v}));
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.length, ".length"));
  MTF_RETURN_IF_ERROR(
      internal::CheckGiven(options.memory_length, ".memory_length"));
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.d_kv, ".d_kv"));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(q, options.length));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(q, options.d_kv));
  MTF_RETURN_IF_ERROR(CheckLacks(q, options.memory_length.name, "memory"));
  for (Tensor x : {k, v}) {
    MTF_RETURN_IF_ERROR(internal::CheckDimension(x, options.memory_length));
    MTF_RETURN_IF_ERROR(internal::CheckDimension(x, options.d_kv));
    MTF_RETURN_IF_ERROR(CheckLacks(x, options.length.name, "queries"));
    for (const Dimension& dim : x.shape()) {
      if (dim == options.memory_length) continue;
      // Any other dimension would be summed over without a word.
      MTF_RETURN_IF_ERROR(internal::CheckDimension(q, dim));
    }
  }
  return CheckMask(options.mask, LogitShape(q, options));
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
  MTF_RETURN_IF_ERROR(CheckLacks(x, options.memory_length.name, "memory"));
  return CheckLacks(memory, options.length.name, "queries");
}

}  // namespace

Tensor DotProductAttention(Tensor q, Tensor k, Tensor v,
                           DotProductAttentionOptions options,
                           std::source_location location) {
  Graph* graph = mtf::internal::GraphOf({q, k, v});
  if (graph == nullptr) return {};
  internal::LayerScope layer(*graph, "dot_product", location);
  const absl::Status status = q.valid()
                                  ? Check(q, k, v, options)
                                  : mtf::internal::CheckInputs(*graph, {q});
  if (!status.ok()) {
    return graph->Fail(status, "attention", location, q.shape(), q.dtype());
  }
  // The scale goes to q, the smaller factor.
  const double scale = 1.0 / std::sqrt(std::max<double>(
                                 1.0, static_cast<double>(options.d_kv.size)));
  Tensor logits =
      internal::To(kFloat32, Einsum({q * scale, k}, LogitShape(q, options)));

  Tensor visible = options.mask;
  if (options.causal) {
    // Comparing places leaves nothing in memory and works on any shard.
    const Tensor past = GreaterEqual(Range(*graph, options.length),
                                     Range(*graph, options.memory_length));
    visible = visible.valid() ? LogicalAnd(visible, past) : past;
  }
  if (visible.valid()) {
    logits = Select(visible, logits, -std::numeric_limits<double>::infinity());
  }
  Tensor weights =
      internal::To(v.dtype(), Softmax(logits, options.memory_length));
  if (options.dropout != 0) weights = Dropout(weights, options.dropout);
  return Einsum({weights, v}, q.shape());
}

Tensor MultiHeadAttention(Tensor x, Tensor memory, AttentionOptions options,
                          std::source_location location) {
  Graph* graph = mtf::internal::GraphOf({x, memory});
  if (graph == nullptr) return {};
  internal::LayerScope layer(*graph, options.name, location);
  const auto fail = [&](const absl::Status& status) {
    return graph->Fail(status, internal::Called("attention", options.name),
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

  const Shape projected = {options.heads, options.d_kv};
  const auto project = [&](Tensor t, const Dimension& dim, const char* name) {
    return Dense(t, {dim}, projected, {.bias = options.bias, .name = name});
  };
  const Tensor q = project(x, *d_model, "query");
  const Tensor k = project(memory, *d_memory, "key");
  const Tensor v = project(memory, *d_memory, "value");
  const Tensor y = DotProductAttention(q, k, v,
                                       {.length = options.length,
                                        .memory_length = options.memory_length,
                                        .d_kv = options.d_kv,
                                        .causal = options.causal,
                                        .dropout = options.dropout,
                                        .mask = options.mask});
  return Dense(y, projected, {*d_model},
               {.bias = options.bias, .name = "output"});
}

Tensor SelfAttention(Tensor x, AttentionOptions options,
                     std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  CallSiteScope site(graph, location);
  absl::Status status = internal::CheckGiven(options.length, ".length");
  if (status.ok()) status = internal::CheckDimension(x, options.length);
  if (!status.ok()) {
    return graph.Fail(status, internal::Called("attention", options.name),
                      location, x.shape(), x.dtype());
  }
  if (options.memory_length.name.empty()) {
    options.memory_length.name = std::string(kMemoryLength);
  }
  options.memory_length.size = options.length.size;
  // Renamed once, so that the gradients of keys and values add up before they
  // are reduced to the layout of `x`.
  const Tensor memory =
      Rename(x, options.length.name, options.memory_length.name);
  return MultiHeadAttention(x, memory, options, location);
}

}  // namespace mtf::nn
