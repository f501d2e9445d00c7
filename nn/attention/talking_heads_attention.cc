// SPDX-License-Identifier: Apache-2.0
#include "nn/attention/talking_heads_attention.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/attention/attention_weights.h"
#include "nn/attention/projections.h"
#include "nn/layers/dense.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "nn/layers/softmax.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/random.h"
#include "ops/reshape.h"

namespace mtf::nn {
namespace {

// Opens no scope: checks, or records the error and returns an empty Sides.
internal::Sides Prepare(Tensor x, Tensor memory, AttentionOptions& options,
                        const char* what, std::source_location location,
                        Tensor* failed) {
  absl::Status status = internal::CheckPlain(options);
  if (status.ok()) status = internal::CheckGiven(options.heads, ".heads");
  if (status.ok()) {
    const auto sides = internal::SidesOf(x, memory, options, what);
    if (sides.ok()) return *sides;
    status = sides.status();
  }
  *failed = x.graph().Fail(status, internal::DescribeLayer(what, options.name),
                           location, x.shape(), x.dtype());
  return {};
}

Shape LogitShape(const internal::Sides& sides, const AttentionOptions& options,
                 const Dimension& heads) {
  const Shape batch =
      sides.x.shape().Without(sides.d_model.name).Without(options.length.name);
  return internal::Join(batch, {heads, options.length, options.memory_length});
}

// The dimensions of an output of attention with `inner` for each head.
Shape ValueShape(const internal::Sides& sides, const Dimension& heads,
                 const Dimension& inner) {
  return internal::Join(sides.x.shape().Without(sides.d_model.name),
                        {heads, inner});
}

Tensor Linear(Tensor x, const Shape& reduced, const Shape& output,
              const AttentionOptions& options, const char* name,
              double init_scale = 1) {
  return Dense(x, reduced, output,
               {.bias = options.bias,
                .init_scale = init_scale,
                .each = options.each,
                .name = name});
}

// Mixes the dimension `from` of `y` to `to`, in the shape `result`.
Tensor MixHeads(Tensor y, const internal::Sides& sides, const Dimension& from,
                const Dimension& to, const Shape& result,
                const AttentionOptions& options,
                const TalkingHeadsOptions& heads, const char* name) {
  const LayerScope layer(y.graph(), name, std::source_location::current());
  const Tensor kernel = Kernel(y.graph(), "kernel", {from}, {to}, y.dtype(),
                               {.each = options.each});
  Tensor mixed = Einsum({y, kernel}, result);
  // Products of y and kernels by position one after the other: their sum would
  // have both lengths and both heads.
  const auto add = [&](Tensor by, const Dimension& d, const char* source) {
    const Tensor dynamic = internal::To(
        y.dtype(), Dense(by, {d}, {from, to},
                         {.bias = false,
                          .init_scale = heads.dynamic_scale /
                                        static_cast<double>(from.size),
                          .each = options.each,
                          .name = source}));
    mixed = mixed + Einsum({y, dynamic}, result);
  };
  if (heads.dynamic_queries) add(sides.x, sides.d_model, "dynamic_queries");
  if (heads.dynamic_keys) add(sides.memory, sides.d_memory, "dynamic_keys");
  return mixed;
}

}  // namespace

Tensor TalkingHeadsAttention(Tensor x, AttentionOptions options,
                             TalkingHeadsOptions heads, Tensor memory,
                             std::source_location location) {
  if (!x.valid()) return {};
  LayerScope layer(x.graph(), options.name, location);
  Tensor failed;
  const internal::Sides sides =
      Prepare(x, memory, options, "talking_heads_attention", location, &failed);
  if (failed.valid()) return failed;
  absl::Status status = internal::CheckGiven(options.d_kv, ".d_kv");
  if (status.ok()) {
    status =
        mtf::internal::CheckNotNegative(".dynamic_scale", heads.dynamic_scale);
  }
  if (status.ok() && heads.key_heads.name.empty() &&
      heads.value_heads.name.empty() &&
      (heads.dynamic_queries || heads.dynamic_keys)) {
    status = absl::InvalidArgumentError(
        "dynamic kernels are requested, but neither .key_heads nor "
        ".value_heads, which they mix");
  }
  if (!status.ok()) {
    return x.graph().Fail(
        status,
        internal::DescribeLayer("talking_heads_attention", options.name),
        location, x.shape(), x.dtype());
  }
  const bool mixes_logits = !heads.key_heads.name.empty(),
             mixes_weights = !heads.value_heads.name.empty();
  const Dimension key_heads = mixes_logits ? heads.key_heads : options.heads,
                  value_heads =
                      mixes_weights ? heads.value_heads : options.heads,
                  d_v = internal::ValueDimension(options.d_kv, options.d_v);
  const Tensor q = Linear(x, {sides.d_model}, {key_heads, options.d_kv},
                          options, "query"),
               k = Linear(sides.memory, {sides.d_memory},
                          {key_heads, options.d_kv}, options, "key"),
               v = Linear(sides.memory, {sides.d_memory}, {value_heads, d_v},
                          options, "value");
  Tensor logits = Einsum({q * internal::ScaleOf(options, options.d_kv), k},
                         LogitShape(sides, options, key_heads));
  if (mixes_logits) {
    logits = MixHeads(logits, sides, key_heads, options.heads,
                      LogitShape(sides, options, options.heads), options, heads,
                      "logit_heads");
  }
  Tensor weights = internal::WeightsOf(internal::MaskedLogits(logits, options),
                                       options, v.dtype());
  if (mixes_weights) {
    weights = MixHeads(weights, sides, options.heads, value_heads,
                       LogitShape(sides, options, value_heads), options, heads,
                       "weight_heads");
  }
  const Tensor y = Einsum({weights, v}, ValueShape(sides, value_heads, d_v));
  return Linear(y, {value_heads, d_v}, {sides.d_model}, options, "output");
}

Tensor BilinearAttention(Tensor x, AttentionOptions options, Tensor memory,
                         std::source_location location) {
  if (!x.valid()) return {};
  LayerScope layer(x.graph(), options.name, location);
  Tensor failed;
  const internal::Sides sides =
      Prepare(x, memory, options, "bilinear_attention", location, &failed);
  if (failed.valid()) return failed;
  if (sides.d_model.size != sides.d_memory.size) {
    return x.graph().Fail(
        absl::InvalidArgumentError(absl::StrCat(
            "the model dimension of the memory is ", sides.d_memory.size,
            ", not ", sides.d_model.size, DescribeInputs({x, memory}))),
        internal::DescribeLayer("bilinear_attention", options.name), location,
        x.shape(), x.dtype());
  }
  // A result of Dense cannot have its input's dimension beside `heads`.
  const Dimension inner{absl::StrCat(sides.d_model.name, "_memory"),
                        sides.d_memory.size};
  const Tensor m = Rename(internal::To(ActivationDType(x), sides.memory),
                          sides.d_memory.name, inner.name);
  const Tensor q =
      Linear(x, {sides.d_model}, {options.heads, inner}, options, "query");
  const Tensor logits = Einsum({q * internal::ScaleOf(options, inner), m},
                               LogitShape(sides, options, options.heads));
  const Tensor weights = internal::WeightsOf(
      internal::MaskedLogits(logits, options), options, m.dtype());
  const Tensor y =
      Einsum({weights, m}, ValueShape(sides, options.heads, inner));
  return Linear(y, {options.heads, inner}, {sides.d_model}, options, "output");
}

Tensor HybridAttention(Tensor x, AttentionOptions options, Tensor memory,
                       std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  Tensor failed;
  const internal::Sides sides =
      Prepare(x, memory, options, "hybrid_attention", location, &failed);
  if (failed.valid()) return failed;
  absl::Status status = internal::CheckGiven(options.d_kv, ".d_kv");
  if (status.ok() && options.causal) {
    status = absl::InvalidArgumentError(
        ".causal is set, but weights that are normalized over queries depend "
        "on later ones");
  }
  if (!status.ok()) {
    return graph.Fail(status,
                      internal::DescribeLayer("hybrid_attention", options.name),
                      location, x.shape(), x.dtype());
  }
  const Dimension d_v = internal::ValueDimension(options.d_kv, options.d_v);
  const Tensor q = Linear(x, {sides.d_model}, {options.heads, options.d_kv},
                          options, "query"),
               k = Linear(sides.memory, {sides.d_memory},
                          {options.heads, options.d_kv}, options, "key"),
               v = Linear(sides.memory, {sides.d_memory}, {options.heads, d_v},
                          options, "value");
  const Tensor logits = internal::MaskedLogits(
      Einsum({q * internal::ScaleOf(options, options.d_kv), k},
             LogitShape(sides, options, options.heads)),
      options);
  const Tensor upper = Softmax(logits, options.memory_length);
  const Tensor lower =
      Softmax(LogSoftmax(logits, options.length), options.memory_length);
  const Shape heads = options.each.With(options.heads);
  const Tensor mix = Minimum(
      Maximum(Parameter(graph, "mix", Constant(graph, 0.5, kFloat32, heads),
                        kFloat32),
              0.0),
      1.0);
  Tensor weights = internal::To(v.dtype(), lower * mix + upper * (1.0 - mix));
  if (options.dropout != 0) weights = Dropout(weights, options.dropout);
  const Tensor y = Einsum({weights, v}, ValueShape(sides, options.heads, d_v));
  return Linear(y, {options.heads, d_v}, {sides.d_model}, options, "output");
}

}  // namespace mtf::nn
