// SPDX-License-Identifier: Apache-2.0
#include "nn/transformer/funnel.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/attention/attention.h"
#include "nn/attention/memory_compressed_attention.h"
#include "nn/attention/position_bias.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/one_hot.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/reshape.h"
#include "ops/windows.h"

namespace mtf::nn {
namespace {

constexpr char kFunnelMemory[] = "memory_length";

absl::Status CheckBlocks(const FunnelOptions& options) {
  if (options.blocks.empty() ||
      (!options.repeats.empty() &&
       options.repeats.size() != options.blocks.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("a funnel has ", options.blocks.size(), " blocks and ",
                     options.repeats.size(), " .repeats"));
  }
  const auto is_none = [](int64_t count) { return count < 1; };
  if (std::any_of(options.blocks.begin(), options.blocks.end(), is_none) ||
      std::any_of(options.repeats.begin(), options.repeats.end(), is_none) ||
      options.factor < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a block has no layer or repeat, or .factor is ",
                     options.factor, ", but all must be at least 1"));
  }
  return absl::OkStatus();
}

absl::Status Check(Tensor x, const FunnelOptions& options) {
  MTF_RETURN_IF_ERROR(CheckBlocks(options));
  const AttentionOptions& attention = options.stack.attention;
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, "funnel_transformer"));
  MTF_RETURN_IF_ERROR(internal::CheckGiven(attention.length, ".length"));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(x, attention.length));
  MTF_RETURN_IF_ERROR(internal::ModelDimension(x, {attention.length}).status());
  if (attention.causal || attention.mask.valid() ||
      attention.position_bias.valid() || !options.stack.sublayers.empty() ||
      !options.stack.memories.empty() || options.stack.reversible ||
      !options.stack.experts.name.empty()) {
    return absl::InvalidArgumentError(
        "lengths change in a funnel, so its stack has no .causal, masks, "
        ".position_bias, .sublayers, .memories, .reversible and .experts\n"
        "  help     give .mask of FunnelOptions for padding, and "
        ".relative_positions");
  }
  if (!options.mask.valid()) return absl::OkStatus();
  return mtf::internal::CheckInputs(x.graph(), {x, options.mask});
}

// The last pooled position may be of fewer positions.
Tensor Pooled(Tensor x, const std::string& length, const FunnelOptions& options,
              FunnelPooling pooling) {
  if (pooling == FunnelPooling::kMean) {
    return CompressMean(x, length, options.factor);
  }
  const int64_t size = x.shape().SizeOf(length);
  const int64_t after =
      (size + options.factor - 1) / options.factor * options.factor - size;
  const PoolOptions pool = {.padding = WindowPadding::kExplicit,
                            .after = after};
  const Shape windows = {{length, options.factor}};
  return pooling == FunnelPooling::kMax ? MaxPool(x, windows, pool)
                                        : -MaxPool(-x, windows, pool);
}

Tensor PooledMask(Tensor mask, const std::string& length,
                  const FunnelOptions& options) {
  return Greater(
      Pooled(Cast(mask, kFloat32), length, options, FunnelPooling::kMax), 0.0);
}

// The first layer of a block, whose queries are those of `x` pooled.
Tensor PooledLayer(Tensor x, Tensor mask, const FunnelOptions& options,
                   std::source_location location) {
  const TransformerOptions& stack = options.stack;
  const ResidualOptions& residual = stack.residual;
  const bool before = residual.position != NormPosition::kAfter;
  const Dimension length = stack.attention.length;
  AttentionOptions attention = stack.attention;
  attention.memory_length = {kFunnelMemory, x.shape().SizeOf(length.name)};
  const Tensor normal = before ? Norm(x, residual.norm, location) : x;
  const Tensor q = Pooled(normal, length.name, options, options.pooling);
  attention.length = {length.name, q.shape().SizeOf(length.name)};
  if (mask.valid()) attention.mask = Rename(mask, length.name, kFunnelMemory);
  if (stack.relative_positions) {
    // A pooled query is at its first position.
    RelativePositionOptions relative = *stack.relative_positions;
    relative.name = "attention_bias";
    attention.position_bias = RelativePositionBias(
        Range(x.graph(), attention.length) *
            static_cast<double>(options.factor),
        Range(x.graph(), attention.memory_length), attention.heads, relative);
  }
  Tensor y = MultiHeadAttention(q, Rename(normal, length.name, kFunnelMemory),
                                attention, location);
  if (residual.position == NormPosition::kAround) {
    y = Norm(y, residual.norm, location);
  }
  if (residual.dropout != 0) y = Dropout(y, residual.dropout, {}, location);
  y = Pooled(x, length.name, options, options.pooling) + y;
  if (!before) y = Norm(y, residual.norm, location);
  return Residual(
      y,
      [&](Tensor z) {
        return FeedForward(z, stack.d_ff, stack.activation, stack.feed_forward);
      },
      residual, location);
}

// `layers` layers on `x`, in the scopes "layer_0", ... of the current one.
Tensor Layers(Tensor x, Tensor mask, int64_t layers,
              const FunnelOptions& options, std::source_location location) {
  TransformerOptions stack = options.stack;
  Dimension& length = stack.attention.length;
  length.size = x.shape().SizeOf(length.name);
  if (mask.valid()) {
    stack.attention.mask = Rename(mask, length.name, kFunnelMemory);
  }
  stack.layers = layers;
  stack.final_norm = false;
  stack.dropout = 0;
  return TransformerStack(x, std::move(stack), {}, location).output;
}

}  // namespace

Funnel FunnelTransformer(Tensor x, FunnelOptions options,
                         std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  const absl::Status status = Check(x, options);
  if (!status.ok()) {
    return {graph.Fail(status, internal::DescribeLayer("funnel", options.name),
                       location, x.shape(), x.dtype()),
            {},
            {}};
  }
  const std::string length = options.stack.attention.length.name;
  Tensor mask =
      options.mask.valid() ? internal::To(kBool, options.mask) : Tensor();
  Funnel result;
  for (size_t block = 0; block < options.blocks.size(); ++block) {
    const std::string name = absl::StrCat("block_", block);
    int64_t layers = options.blocks[block];
    if (block > 0) {
      const Scope scope(graph, absl::StrCat(name, "/pooled"));
      x = PooledLayer(x, mask, options, location);
      if (mask.valid()) mask = PooledMask(mask, length, options);
      --layers;
    }
    const int64_t repeats =
        options.repeats.empty() ? 1 : options.repeats[block];
    for (int64_t i = 0; i < repeats && layers > 0; ++i) {
      const Scope scope(graph, name, i == 0 ? Scope::kAsGiven : Scope::kReuse,
                        location);
      x = Layers(x, mask, layers, options, location);
    }
    result.states.push_back(x);
  }
  if (options.stack.final_norm) {
    x = Norm(x, options.stack.residual.norm, location);
  }
  if (options.stack.dropout != 0) {
    x = Dropout(x, options.stack.dropout, {}, location);
  }
  result.output = x;
  result.mask = mask;
  return result;
}

Tensor FunnelUpsample(Tensor x, Dimension length, int64_t factor,
                      std::source_location location) {
  if (!x.valid()) return {};
  LayerScope layer(x.graph(), "funnel_upsample", location);
  absl::Status status = mtf::internal::CheckHasDimension(x, length.name);
  if (status.ok()) {
    const int64_t size = x.shape().SizeOf(length.name);
    if (factor < 1 || length.size < 0 ||
        (length.size + factor - 1) / factor != size) {
      status = absl::InvalidArgumentError(absl::StrCat(
          "\"", length.name, "\" of ", size, " cannot be repeated ", factor,
          " times to ", length.size, DescribeInputs({x})));
    }
  }
  if (!status.ok()) {
    return x.graph().Fail(status, "funnel_upsample", location, x.shape(),
                          x.dtype());
  }
  const int64_t size = x.shape().SizeOf(length.name);
  const Dimension copies{"copies", factor};
  return FoldWindows(Broadcast(x, x.shape().With(copies)), length.name,
                     copies.name, length.size,
                     {.stride = factor,
                      .padding = WindowPadding::kExplicit,
                      .after = size * factor - length.size});
}

}  // namespace mtf::nn
