// SPDX-License-Identifier: Apache-2.0
#include "nn/models/transformer.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_norm.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/one_hot.h"
#include "ops/random.h"

namespace mtf::nn {
namespace {

absl::Status CheckStack(Tensor x, const TransformerOptions& options,
                        Tensor memory) {
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, "a stack of layers"));
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.d_ff, ".d_ff"));
  if (memory.valid()) {
    MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(x.graph(), {x, memory}));
    if (memory.shape().rank() < 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("the memory needs a length and a model dimension",
                       DescribeInputs({memory})));
    }
  }
  if (options.layers >= 0 && options.experts_every >= 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      ".layers is ", options.layers, " and .experts_every ",
      options.experts_every, ", but they must be at least 0 and 1"));
}

// The options for attention to `memory`, with what is left out.
AttentionOptions ToMemory(const TransformerOptions& options, Tensor memory) {
  AttentionOptions to = options.memory_attention;
  const auto complete = [](Dimension& dim, const Dimension& otherwise) {
    if (dim.name.empty()) dim = otherwise;
  };
  complete(to.length, options.attention.length);
  if (to.heads.name.empty()) to.groups = options.attention.groups;
  complete(to.heads, options.attention.heads);
  complete(to.d_kv, options.attention.d_kv);
  complete(to.memory_length,
           {"memory_length", memory.shape()[memory.shape().rank() - 2].size});
  if (to.name == AttentionOptions().name) to.name = "attention_to_memory";
  return to;
}

// The bias of relative positions for all layers, or the one that is given.
Tensor SharedBias(Graph& graph, const TransformerOptions& options) {
  const AttentionOptions& attention = options.attention;
  if (!options.relative_positions) return attention.position_bias;
  const std::string memory_length = attention.memory_length.name.empty()
                                        ? "memory_length"
                                        : attention.memory_length.name;
  // Layouts may shard both lengths over one axis, as for a ring.
  const AxisConflictScope conflict(
      graph, {.yielding = {memory_length},
              .sharded = {attention.length.name, attention.heads.name}});
  const Tensor positions = Range(graph, attention.length);
  const Tensor memory_positions =
      Range(graph, {memory_length, attention.length.size});
  // The name for which layouts have rules of attention.
  RelativePositionOptions relative = *options.relative_positions;
  if (relative.name == RelativePositionOptions().name) {
    relative.name = "attention_bias";
  }
  const Tensor bias = RelativePositionBias(positions, memory_positions,
                                           attention.heads, relative);
  if (!attention.position_bias.valid()) return bias;
  return bias + attention.position_bias;
}

}  // namespace

Tensor Norm(Tensor x, NormOptions options, std::source_location location) {
  if (!x.valid() || options.kind == NormKind::kNone) return x;
  const auto dim = internal::ModelDimension(x);
  if (!dim.ok()) {
    return x.graph().Fail(dim.status(), "norm", location, x.shape(), x.dtype());
  }
  const auto epsilon = [&](double otherwise) {
    return options.epsilon == 0 ? otherwise : options.epsilon;
  };
  switch (options.kind) {
    case NormKind::kRmsNorm:
      return RmsNorm(x, *dim, {.epsilon = epsilon(RmsNormOptions().epsilon)},
                     location);
    case NormKind::kScaleNorm:
      return ScaleNorm(
          x, *dim, {.epsilon = epsilon(ScaleNormOptions().epsilon)}, location);
    case NormKind::kLayerNorm:
    case NormKind::kNone:
      break;
  }
  return LayerNorm(
      x, *dim,
      {.epsilon = epsilon(LayerNormOptions().epsilon), .bias = options.bias},
      location);
}

Tensor Residual(Tensor x, const Sublayer& sublayer, ResidualOptions options,
                std::source_location location) {
  if (!x.valid()) return {};
  const CallSiteScope site(x.graph(), location);
  const bool before = options.position != NormPosition::kAfter;
  Tensor y = sublayer(before ? Norm(x, options.norm, location) : x);
  if (options.position == NormPosition::kAround) {
    y = Norm(y, options.norm, location);
  }
  if (options.dropout != 0) y = Dropout(y, options.dropout, {}, location);
  x = x + y;
  return before ? x : Norm(x, options.norm, location);
}

Transformer TransformerStack(Tensor x, TransformerOptions options,
                             Tensor memory, std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  const CallSiteScope site(graph, location);
  const absl::Status status = CheckStack(x, options, memory);
  if (!status.ok()) {
    return {
        graph.Fail(status, "transformer_stack", location, x.shape(), x.dtype()),
        {}};
  }
  AttentionOptions to_memory;
  if (memory.valid()) to_memory = ToMemory(options, memory);
  options.attention.position_bias = SharedBias(graph, options);
  options.routing.feed_forward = options.feed_forward;

  Transformer result;
  for (int64_t i = 0; i < options.layers; ++i) {
    const Scope layer(graph, absl::StrCat("layer_", i));
    const auto add = [&](const Sublayer& sublayer) {
      x = Residual(x, sublayer, options.residual, location);
    };
    add([&](Tensor y) { return SelfAttention(y, options.attention); });
    if (memory.valid()) {
      add([&](Tensor y) { return MultiHeadAttention(y, memory, to_memory); });
    }
    const bool has_experts =
        !options.experts.name.empty() && (i + 1) % options.experts_every == 0;
    add([&](Tensor y) {
      if (!has_experts) {
        return FeedForward(y, options.d_ff, options.activation,
                           options.feed_forward);
      }
      result.experts.push_back(
          MixtureOfExperts(y, options.experts, options.d_ff, options.activation,
                           options.routing));
      return result.experts.back().output;
    });
  }
  if (options.final_norm) x = Norm(x, options.residual.norm, location);
  if (options.dropout != 0) x = Dropout(x, options.dropout, {}, location);
  result.output = x;
  return result;
}

}  // namespace mtf::nn
