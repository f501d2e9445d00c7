// SPDX-License-Identifier: Apache-2.0
#include "nn/attention/synthesizer_attention.h"

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/attention/attention_weights.h"
#include "nn/attention/projections.h"
#include "nn/layers/dense.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/random.h"
#include "ops/reshape.h"

namespace mtf::nn {
namespace {

bool IsFactorized(Synthesis kind) {
  return kind == Synthesis::kFactorizedRandom ||
         kind == Synthesis::kFactorizedDense;
}

bool ReadsQueries(const SynthesizerOptions& options) {
  return options.mix != SynthesisMix::kNone ||
         options.kind == Synthesis::kDense ||
         options.kind == Synthesis::kFactorizedDense;
}

absl::Status Check(const AttentionOptions& options,
                   const SynthesizerOptions& synthesizer) {
  MTF_RETURN_IF_ERROR(internal::CheckPlain(options));
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.heads, ".heads"));
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.d_kv, ".d_kv"));
  const Dimension& rank = synthesizer.rank;
  if (!IsFactorized(synthesizer.kind)) {
    if (rank.name.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        ".rank is \"", rank.name, "\", but the logits are not factorized"));
  }
  MTF_RETURN_IF_ERROR(internal::CheckGiven(rank, ".rank"));
  if (synthesizer.kind != Synthesis::kFactorizedDense ||
      (rank.size >= 1 && options.length.size % rank.size == 0)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(".rank is ", rank.size, ", which does not divide \"",
                   options.length.name, "\" of ", options.length.size));
}

// A parameter of normal values.
Tensor NormalParameter(Graph& graph, const char* name, const Shape& shape) {
  return Parameter(graph, name,
                   RandomNormal(graph, shape, 0, 1, {.per_step = false}),
                   kFloat32);
}

// The logits of random kinds: [each..., heads, length, memory_length].
Tensor RandomLogits(Graph& graph, const AttentionOptions& options,
                    const SynthesizerOptions& synthesizer) {
  const Shape heads = options.each.With(options.heads);
  const Shape shape = heads.With(options.length).With(options.memory_length);
  if (synthesizer.kind == Synthesis::kRandom) {
    return NormalParameter(graph, "logits", shape);
  }
  const Tensor left = NormalParameter(
      graph, "left", heads.With(options.length).With(synthesizer.rank));
  const Tensor right = NormalParameter(
      graph, "right", heads.With(options.memory_length).With(synthesizer.rank));
  return Einsum({left, right}, shape);
}

// The logits of dense kinds: [batch..., length, heads, memory_length].
Tensor DenseLogits(Tensor query, const AttentionOptions& options,
                   const SynthesizerOptions& synthesizer) {
  const Tensor hidden = Relu(query);
  const Shape each = options.each.With(options.heads);
  const auto linear = [&](const Dimension& to, const char* name) {
    return Dense(hidden, {options.d_kv}, {to}, {.each = each, .name = name});
  };
  if (synthesizer.kind == Synthesis::kDense) {
    return linear(options.memory_length, "synthesized");
  }
  const Dimension& rows = synthesizer.rank;
  const Dimension columns{absl::StrCat(rows.name, "_columns"),
                          options.memory_length.size / rows.size};
  const Tensor grid = linear(rows, "rows") * linear(columns, "columns");
  return MergeDimensions(grid, {rows.name, columns.name},
                         options.memory_length.name);
}

Tensor Synthesized(Tensor query, Graph& graph, const AttentionOptions& options,
                   const SynthesizerOptions& synthesizer) {
  const bool is_random = synthesizer.kind == Synthesis::kRandom ||
                         synthesizer.kind == Synthesis::kFactorizedRandom;
  return is_random
             ? RandomLogits(graph, options, synthesizer)
             : internal::To(kFloat32, DenseLogits(query, options, synthesizer));
}

// The logits of dot products mixed with `synthesized`.
Tensor Mixed(Tensor dots, Tensor synthesized, Graph& graph,
             const AttentionOptions& options, SynthesisMix mix) {
  dots = internal::To(kFloat32, dots);
  if (mix == SynthesisMix::kSum) return dots + synthesized;
  const Tensor share = Sigmoid(Parameter(
      graph, "mix", Zeros(graph, kFloat32, options.each.With(options.heads)),
      kFloat32));
  return dots * (1.0 - share) + synthesized * share;
}

}  // namespace

Tensor SynthesizerAttention(Tensor x, AttentionOptions options,
                            SynthesizerOptions synthesizer,
                            std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  const absl::Status checked = Check(options, synthesizer);
  const auto sides =
      checked.ok() ? internal::SidesOf(x, {}, options, "synthesizer_attention")
                   : absl::StatusOr<internal::Sides>(checked);
  if (!sides.ok()) {
    return graph.Fail(
        sides.status(),
        internal::DescribeLayer("synthesizer_attention", options.name),
        location, x.shape(), x.dtype());
  }
  const Tensor q = ReadsQueries(synthesizer)
                       ? internal::ProjectQueries(x, sides->d_model, options)
                       : Tensor();
  const Shape batch =
      x.shape().Without(sides->d_model.name).Without(options.length.name);
  const Shape shape = internal::Join(
      batch, {options.heads, options.length, options.memory_length});
  const auto linear = [&](const Dimension& d, const char* name) {
    return Dense(sides->memory, {sides->d_memory}, {options.heads, d},
                 {.bias = options.bias, .each = options.each, .name = name});
  };
  Tensor dots;
  if (synthesizer.mix != SynthesisMix::kNone) {
    dots = Einsum({q * internal::ScaleOf(options, options.d_kv),
                   linear(options.d_kv, "key")},
                  shape);
  }
  Tensor logits = Synthesized(q, graph, options, synthesizer);
  if (dots.valid()) {
    logits = Mixed(dots, logits, graph, options, synthesizer.mix);
  }
  const Dimension d_v = internal::ValueDimension(options.d_kv, options.d_v);
  const Tensor v = linear(d_v, "value");
  const Tensor weights = internal::WeightsOf(
      internal::MaskedLogits(logits, options), options, v.dtype());
  const Tensor y = Einsum({weights, v},
                          internal::Join(x.shape().Without(sides->d_model.name),
                                         {options.heads, d_v}));
  return internal::ProjectOutput(y, sides->d_model, options);
}

}  // namespace mtf::nn
