// SPDX-License-Identifier: Apache-2.0
#include "nn/transformer/funnel.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/attention/attention.h"
#include "nn/attention/memory_compressed_attention.h"
#include "nn/attention/position_bias.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/gradient_control.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/regularization.h"
#include "nn/layers/rezero.h"
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
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.stack.d_ff, ".d_ff"));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(x, attention.length));
  MTF_RETURN_IF_ERROR(internal::ModelDimension(x, {attention.length}).status());
  if (attention.causal || attention.mask.valid() ||
      attention.position_bias.valid() || !options.stack.sublayers.empty() ||
      !options.stack.memories.empty() || options.stack.reversible ||
      !options.stack.experts.name.empty() ||
      !options.stack.ensemble.name.empty() ||
      options.stack.residual.mask.valid()) {
    return absl::InvalidArgumentError(
        "lengths change in a funnel, so its stack has no .causal, masks, "
        ".position_bias, .sublayers, .memories, .reversible, .experts and "
        ".ensemble\n"
        "  help     give .mask of FunnelOptions for padding, and "
        ".relative_positions");
  }
  if (!options.mask.valid()) return absl::OkStatus();
  return mtf::internal::CheckInputs(x.graph(), {x, options.mask});
}

int64_t PooledSize(int64_t size, int64_t factor) {
  return (size + factor - 1) / factor;
}

// The last pooled position may be of fewer positions.
Tensor Pooled(Tensor x, const std::string& length, const FunnelOptions& options,
              FunnelPooling pooling) {
  if (pooling == FunnelPooling::kMean) {
    return CompressMean(x, length, options.factor);
  }
  const int64_t size = x.shape().SizeOf(length);
  const int64_t after =
      PooledSize(size, options.factor) * options.factor - size;
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

// Adds attention to `x`, whose queries are those of `x` pooled, to `x` pooled.
// Creates the parameters that Residual() creates for self-attention.
Tensor PooledAttention(Tensor x, const FunnelOptions& options,
                       const AttentionOptions& attention,
                       std::source_location location) {
  const ResidualOptions& residual = options.stack.residual;
  const std::string& length = attention.length.name;
  const bool before = residual.position != NormPosition::kAfter;
  const Tensor normal = before ? Norm(x, residual.norm, location) : x;
  Tensor y =
      MultiHeadAttention(Pooled(normal, length, options, options.pooling),
                         Rename(normal, length, kFunnelMemory), attention);
  if (residual.position == NormPosition::kAround) {
    y = Norm(y, residual.norm, location);
  }
  if (residual.clip_gradient != 0) {
    y = ClipActivationGradient(y, residual.clip_gradient, location);
  }
  if (residual.dropout_rate.valid()) {
    y = AnnealedDropout(y, residual.dropout_rate, location);
  } else if (residual.dropout != 0) {
    y = Dropout(y, residual.dropout, {}, location);
  }
  if (residual.rezero) y = Rezero(y, {.each = residual.norm.each}, location);
  y = Pooled(x, length, options, options.pooling) + y;
  return before ? y : Norm(y, residual.norm, location);
}

// Between layers.
struct FunnelState {
  Tensor x, mask;
  int64_t stride = 1;  // positions of the input from one to the next
};

// The layers of a block, in the scopes "<block>/layer_0", ...
class FunnelBlock {
 public:
  FunnelBlock(std::string name, const FunnelOptions& options,
              std::source_location location)
      : name_(std::move(name)), options_(options), location_(location) {}

  // Applies a layer; `again` with the parameters that it has.
  FunnelState Apply(const FunnelState& in, int64_t layer, bool pools,
                    bool again) {
    const TransformerOptions& stack = options_.stack;
    AttentionOptions attention = stack.attention;
    const std::string length = attention.length.name;
    const int64_t size = in.x.shape().SizeOf(length);
    attention.length.size = pools ? PooledSize(size, options_.factor) : size;
    attention.memory_length = {kFunnelMemory, size};
    if (in.mask.valid()) {
      attention.mask = Rename(in.mask, length, kFunnelMemory);
    }
    FunnelState out = in;
    if (pools) {
      if (in.mask.valid()) out.mask = PooledMask(in.mask, length, options_);
      // Of a single position the stride does not matter, and might overflow.
      out.stride = attention.length.size > 1 ? in.stride * options_.factor : 1;
    }
    if (stack.relative_positions) {
      if (pools || !bias_.valid()) {
        bias_ = Bias(in.x.graph(), attention, out.stride, in.stride);
      }
      attention.position_bias = bias_;
      if (pools) bias_ = Tensor();  // the next layers have fewer keys
    }
    const Scope scope(in.x.graph(), absl::StrCat(name_, "/layer_", layer),
                      again ? Scope::kReuse : Scope::kAsGiven, location_);
    out.x =
        pools ? PooledAttention(in.x, options_, attention, location_)
              : Residual(
                    in.x, [&](Tensor y) { return SelfAttention(y, attention); },
                    stack.residual, location_);
    out.x = Residual(
        out.x,
        [&](Tensor y) {
          return FeedForward(y, stack.d_ff, stack.activation,
                             stack.feed_forward);
        },
        stack.residual, location_);
    return out;
  }

 private:
  // The biases of relative positions, which are those of the input: a pooled
  // position is at its first.
  Tensor Bias(Graph& graph, const AttentionOptions& attention,
              int64_t query_stride, int64_t key_stride) {
    const Scope scope(graph, name_,
                      has_table_ ? Scope::kReuse : Scope::kAsGiven, location_);
    has_table_ = true;
    // Layouts may shard both lengths over one axis, as for a ring.
    const AxisConflictScope conflict(
        graph, {.yielding = {kFunnelMemory},
                .sharded = {attention.length.name, attention.heads.name}});
    RelativePositionOptions relative = *options_.stack.relative_positions;
    // The name for which layouts have rules of attention.
    if (relative.name == RelativePositionOptions().name) {
      relative.name = "attention_bias";
    }
    return RelativePositionBias(
        Range(graph, attention.length) * static_cast<double>(query_stride),
        Range(graph, attention.memory_length) * static_cast<double>(key_stride),
        attention.heads, relative);
  }

  const std::string name_;
  const FunnelOptions& options_;
  const std::source_location location_;
  bool has_table_ = false;
  Tensor bias_;  // of layers that do not pool
};

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
  FunnelState state = {
      x, options.mask.valid() ? internal::To(kBool, options.mask) : Tensor()};
  Funnel result;
  for (size_t b = 0; b < options.blocks.size(); ++b) {
    FunnelBlock block(absl::StrCat("block_", b), options, location);
    const int64_t repeats = options.repeats.empty() ? 1 : options.repeats[b];
    for (int64_t i = 0; i < options.blocks[b]; ++i) {
      for (int64_t j = 0; j < repeats; ++j) {
        const bool pools = b > 0 && i == 0 && j == 0;
        state = block.Apply(state, i, pools, j > 0);
      }
    }
    result.states.push_back(state.x);
  }
  x = state.x;
  if (options.stack.final_norm) {
    x = Norm(x, options.stack.residual.norm, location);
  }
  if (options.stack.dropout != 0) {
    x = Dropout(x, options.stack.dropout, {}, location);
  }
  result.output = x;
  result.mask = state.mask;
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
        PooledSize(length.size, factor) != size) {
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
