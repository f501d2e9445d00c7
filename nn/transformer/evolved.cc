// SPDX-License-Identifier: Apache-2.0
#include "nn/transformer/evolved.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/convolution.h"
#include "nn/layers/dense.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/pad.h"
#include "ops/random.h"

namespace mtf::nn {
namespace {

absl::Status Check(Tensor x, const EvolvedOptions& options, Tensor memory) {
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, "an evolved transformer"));
  const Dimension& length = options.attention.length;
  MTF_RETURN_IF_ERROR(internal::CheckGiven(length, ".length"));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(x, length));
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.d_ff, ".d_ff"));
  MTF_ASSIGN_OR_RETURN(const Dimension d_model,
                       internal::ModelDimension(x, {length}));
  if (d_model.size % 2 != 0 || options.d_ff.size < 2 * d_model.size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", d_model.name, "\" is ", d_model.size, " and \"",
        options.d_ff.name, "\" ", options.d_ff.size,
        ", but must be even, and at least twice as much", DescribeInputs({x})));
  }
  if (!memory.valid()) return absl::OkStatus();
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(x.graph(), {x, memory}));
  if (memory.shape().rank() >= 2) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the memory needs a length and a model dimension",
                   DescribeInputs({memory})));
}

// `x` with zeros up to `dim` along its dimension of that name.
Tensor Widened(Tensor x, const Dimension& dim) {
  const int64_t size = x.shape().SizeOf(dim.name);
  return size == dim.size ? x : Pad(x, dim.name, 0, dim.size - size);
}

Tensor WithDropout(Tensor x, const EvolvedOptions& options) {
  return options.residual.dropout == 0 ? x
                                       : Dropout(x, options.residual.dropout);
}

// A convolution over the length: of positions on both sides, or before only.
ConvolutionOptions Windowed(int64_t taps, bool causal, Activation activation,
                            const char* name) {
  ConvolutionOptions options;
  if (causal) {
    options.window = {.padding = WindowPadding::kExplicit, .before = taps - 1};
  }
  options.activation = std::move(activation);
  options.name = name;
  return options;
}

Tensor Separable(Tensor x, int64_t taps, bool causal, const Dimension& out,
                 const EvolvedOptions& options, Activation activation,
                 const char* name) {
  const Dimension in = x.shape().dims().back();
  return SeparableConvolution(
      x, {{options.attention.length.name, taps}}, in, out,
      Windowed(taps, causal, std::move(activation), name));
}

Tensor GatedLinearUnit(Tensor x) {
  const Dimension d_model = x.shape().dims().back();
  return DenseProduct(x, {d_model}, {d_model}, {nullptr, Sigmoid},
                      {.name = "gated"});
}

// Both branches of the encoder, and the convolution of their sum.
Tensor EncoderConvolutions(Tensor x, const EvolvedOptions& options) {
  const Dimension d_model = x.shape().dims().back(), wide = options.d_ff;
  const Dimension half_wide{wide.name, d_model.size / 2},
      half{d_model.name, d_model.size / 2};
  const Tensor left =
      WithDropout(Dense(x, {d_model}, {wide},
                        {.bias = false, .activation = Relu, .name = "wide"}),
                  options);
  const Tensor right =
      WithDropout(Convolution(x, {{options.attention.length.name, 3}}, d_model,
                              half_wide, Windowed(3, false, Relu, "narrow")),
                  options);
  const Tensor h = Norm(left + Widened(right, wide), options.residual.norm);
  const Tensor y = Separable(h, 9, false, half, options, nullptr, "joined");
  return Widened(y, d_model);
}

Tensor DecoderConvolutions(Tensor x, const EvolvedOptions& options) {
  const Dimension d_model = x.shape().dims().back();
  const Dimension wide{options.d_ff.name, 2 * d_model.size},
      half_wide{wide.name, d_model.size / 2};
  const Tensor left =
      WithDropout(Separable(x, 11, true, wide, options, Relu, "wide"), options);
  const Tensor right = WithDropout(
      Separable(x, 7, true, half_wide, options, nullptr, "narrow"), options);
  const Tensor h = Norm(left + Widened(right, wide), options.residual.norm);
  return Separable(h, 7, true, d_model, options, nullptr, "joined");
}

// The options for attention to `memory`, with what is left out.
AttentionOptions ToMemory(const EvolvedOptions& options, Tensor memory) {
  AttentionOptions to = options.memory_attention;
  const auto complete = [](Dimension& dim, const Dimension& otherwise) {
    if (dim.name.empty()) dim = otherwise;
  };
  complete(to.length, options.attention.length);
  complete(to.heads, options.attention.heads);
  complete(to.d_kv, options.attention.d_kv);
  complete(to.memory_length,
           {"memory_length", memory.shape()[memory.shape().rank() - 2].size});
  if (to.name == AttentionOptions().name) to.name = "attention_to_memory";
  return to;
}

// Twice as many heads, with the same number of channels of all heads together.
absl::StatusOr<AttentionOptions> TwiceTheHeads(AttentionOptions attention) {
  attention.heads.size *= 2;
  for (Dimension* dim : {&attention.d_kv, &attention.d_v}) {
    if (dim->size % 2 != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", dim->name, "\" is ", dim->size,
          ", but must be even: the first self-attention of the block has twice "
          "the heads of half the size"));
    }
    dim->size /= 2;
  }
  return attention;
}

Tensor FailBlock(Tensor x, const absl::Status& status,
                 const EvolvedOptions& options, std::source_location location) {
  return x.graph().Fail(status,
                        internal::DescribeLayer("evolved", options.name),
                        location, x.shape(), x.dtype());
}

}  // namespace

Tensor EvolvedEncoderBlock(Tensor x, EvolvedOptions options,
                           std::source_location location) {
  if (!x.valid()) return {};
  LayerScope layer(x.graph(), options.name, location);
  const absl::Status status = Check(x, options, {});
  if (!status.ok()) return FailBlock(x, status, options, location);
  const auto add = [&](const Sublayer& sublayer) {
    x = Residual(x, sublayer, options.residual);
  };
  add(GatedLinearUnit);
  add([&](Tensor y) { return EncoderConvolutions(y, options); });
  add([&](Tensor y) { return SelfAttention(y, options.attention); });
  add([&](Tensor y) { return FeedForward(y, options.d_ff, Relu); });
  return x;
}

Tensor EvolvedDecoderBlock(Tensor x, EvolvedOptions options, Tensor memory,
                           std::source_location location) {
  if (!x.valid()) return {};
  LayerScope layer(x.graph(), options.name, location);
  const absl::Status status = Check(x, options, memory);
  if (!status.ok()) return FailBlock(x, status, options, location);
  options.attention.causal = true;
  AttentionOptions to_memory;
  if (memory.valid()) to_memory = ToMemory(options, memory);
  const auto twice = TwiceTheHeads(options.attention);
  if (!twice.ok()) return FailBlock(x, twice.status(), options, location);
  const auto add = [&](const Sublayer& sublayer) {
    x = Residual(x, sublayer, options.residual);
  };
  add([&](Tensor y) {
    const Tensor own = SelfAttention(y, *twice);
    return memory.valid() ? own + MultiHeadAttention(y, memory, to_memory)
                          : own;
  });
  add([&](Tensor y) { return DecoderConvolutions(y, options); });
  add([&](Tensor y) { return SelfAttention(y, options.attention); });
  if (memory.valid()) {
    add([&](Tensor y) { return MultiHeadAttention(y, memory, to_memory); });
  }
  add([&](Tensor y) { return FeedForward(y, options.d_ff, Swish); });
  return x;
}

}  // namespace mtf::nn
