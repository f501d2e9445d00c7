// SPDX-License-Identifier: Apache-2.0
//
// Stacks of transformer layers: encoders, decoders, and decoders that attend to
// an encoder. A layer consists of sublayers, each a function of nn/ around
// which Residual() writes the norm, dropout and sum:
//
//   self-attention, attention to a memory, feed-forward or mixture of experts
//
// The option .sublayers has others, such as convolutions or functions of the
// program. nn/transformer/ builds models and variants of stacks. Parameters and
// scopes have the names that the presets of layouts have rules for:
//
//   layer_0/layer_norm/{scale,bias}         before or after self-attention
//   layer_0/attention/{query,key,value,output}/{kernel,bias}
//   layer_0/attention_to_memory/...         with a norm of its own
//   layer_0/feed_forward/{in,gate,out}/{kernel,bias}, or layer_0/experts/...
//   layer_norm/{scale,bias}                 after the last layer
//
// The second norm of a layer is called layer_norm_1; other kinds of norms
// rms_norm and scale_norm.
#ifndef NN_MODELS_TRANSFORMER_H_
#define NN_MODELS_TRANSFORMER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <source_location>
#include <variant>
#include <vector>

#include "mtf/dimension.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"
#include "nn/attention/attention.h"
#include "nn/attention/position_bias.h"
#include "nn/experts/experts.h"
#include "nn/layers/activations.h"
#include "nn/layers/feed_forward.h"

namespace mtf::nn {

enum class NormKind : uint8_t { kLayerNorm, kRmsNorm, kScaleNorm, kNone };

struct NormOptions {
  NormKind kind = NormKind::kLayerNorm;
  // By default that of LayerNorm, RmsNorm or ScaleNorm.
  std::optional<double> epsilon = std::nullopt;
  bool bias = true;  // of kLayerNorm
  // Dimensions of `x` with parameters of their own for each element.
  Shape each = Shape();
};

// Normalizes `x` over its last dimension: LayerNorm, RmsNorm or ScaleNorm, by
// the options. kNone returns `x`. Errors are those of these functions, and
// kInvalidArgument for a scalar.
Tensor Norm(Tensor x, NormOptions options = {},
            std::source_location location = std::source_location::current());

// Where the norm of a sublayer f stands.
enum class NormPosition : uint8_t {
  kBefore,  // x + f(norm(x)), as in GPT-2, Llama and T5
  kAfter,   // norm(x + f(x)), as in Vaswani et al., 2017, and BERT
  kAround,  // x + norm(f(norm(x))), as in Gemma 2
};

struct ResidualOptions {
  NormOptions norm = NormOptions();
  NormPosition position = NormPosition::kBefore;
  double dropout = 0;  // of the result of the sublayer
  // A rate of dropout that the step computes, instead: see AnnealedDropout.
  Tensor dropout_rate = Tensor();
  // Multiplies the result of the sublayer by a parameter that is 0 at first
  // (Rezero).
  bool rezero = false;
  // If positive: the root mean square of the gradient of the result of the
  // sublayer at most (ClipActivationGradient).
  double clip_gradient = 0;
  // With dimensions of `x` other than the model dimension: 0 or false where a
  // position is padding. The sublayer reads zeros there, so that convolutions
  // do not mix padding in.
  Tensor mask = Tensor();
};

// Any function from a tensor to one of the same shape.
using Sublayer = std::function<Tensor(Tensor x)>;

// A residual sublayer, by .position. Opens no scope of its own.
//
//   x = nn::Residual(x, [&](Tensor y) {
//     return nn::FeedForward(y, d_ff, Gelu);
//   }, {.norm = {.kind = nn::NormKind::kRmsNorm}});
//
// Records the errors of Norm, Dropout, AnnealedDropout, Rezero and
// ClipActivationGradient in the graph. Returns an empty Tensor
// if `x` is empty.
Tensor Residual(
    Tensor x, const Sublayer& sublayer, ResidualOptions options = {},
    std::source_location location = std::source_location::current());

// The sublayers that a stack has options for.
enum class StackLayer : uint8_t {
  kSelfAttention,
  kMemoryAttention,
  kFeedForward,  // in some layers a mixture of experts, by .experts_every
  kExperts,
};

// Where in a stack a sublayer is.
struct StackPlace {
  int64_t layer = 0;         // 0: "layer_0"
  Tensor memory = Tensor();  // that the layer attends to; may be empty
};

// A sublayer of each layer of a stack: one of the above, or a function.
//
//   options.sublayers = {
//       [=](Tensor x, const nn::StackPlace&) {
//         return nn::LightweightConvolution(x, length, heads, {.taps = 7});
//       },
//       nn::StackLayer::kMemoryAttention, nn::StackLayer::kFeedForward};
using StackFunction = std::function<Tensor(Tensor x, const StackPlace& place)>;
using StackSublayer = std::variant<StackLayer, StackFunction>;

struct TransformerOptions {
  int64_t layers = 1;
  // Of each layer, in order. Empty: self-attention, attention to the memory if
  // there is one, and feed-forward.
  std::vector<StackSublayer> sublayers = {};
  // Of self-attention: .length, .heads, .d_kv, and .causal for a decoder, with
  // the options for groups of heads, rotary positions, windows and biases.
  AttentionOptions attention = {};
  // Of the attention of each layer to a memory. Without .length, .heads or
  // .d_kv those of `attention`; without .memory_length: "memory_length", with
  // the size of the second last dimension of the memory. Not causal.
  AttentionOptions memory_attention = {};
  // Feed-forward layers.
  Dimension d_ff = Dimension();
  Activation activation = Gelu;
  FeedForwardOptions feed_forward = {};
  // If it has a name: every `experts_every`-th layer, beginning with number
  // experts_every - 1, has a mixture of experts instead of the feed-forward
  // layer. `routing` has the options; its .feed_forward is the one above.
  Dimension experts = Dimension();
  int64_t experts_every = 1;
  ExpertsOptions routing = {};
  ResidualOptions residual = ResidualOptions();
  // Whether the result of the stack is normalized, as it must be if norms stand
  // before sublayers.
  bool final_norm = true;
  // Of the result of the stack.
  double dropout = 0;
  // T5's relative positions: one table of biases, "attention_bias", which all
  // layers share for their self-attention.
  std::optional<RelativePositionOptions> relative_positions = std::nullopt;
  // Instead of a memory for all layers: layer i attends to element i * size() /
  // layers, such as a result of TransparentMemories().
  std::vector<Tensor> memories = {};
  // Keeps the activations of one layer only (ReversibleStack): sublayers are
  // added to two streams in turn, which begin with `x`. The result is their
  // sum (Gomez et al., 2017; Kitaev et al., 2020).
  bool reversible = false;
  // A dimension of `x` and the memory with parameters of its own for each
  // element: an ensemble of so many stacks. Functions of .sublayers and a given
  // .position_bias take care of it themselves.
  Dimension ensemble = Dimension();
};

struct Transformer {
  Tensor output;                 // in the shape of x
  std::vector<Experts> experts;  // by layer that has experts: losses, load
  // `x`, then the result of each layer before .final_norm. Empty if the stack
  // is reversible.
  std::vector<Tensor> states = {};
};

// Applies the layers "layer_0", "layer_1", ... to `x` [batch..., length,
// d_model].
//
//   const nn::Transformer decoder = nn::TransformerStack(x, {
//       .layers = 12,
//       .attention = {.length = length, .heads = heads, .d_kv = d_kv,
//                     .causal = true},
//       .d_ff = d_ff});
//
// With a `memory` [batch..., memory_length, d_model], the result of an encoder,
// each layer attends to it after its self-attention:
//
//   Tensor memory = Rename(encoded, "length", "memory_length");
//   nn::TransformerStack(x, options, memory);
//
// Records kInvalidArgument in the graph if
//   * `layers` is negative, `experts_every` less than 1, or `.d_ff` missing for
//     feed-forward layers;
//   * a layer attends to a memory and there is none, or both `memory` and
//     .memories are given;
//   * a function of .sublayers is null;
//   * a reversible stack has norms after its sublayers, or experts, whose
//     losses would keep activations;
//   * an ensemble has experts.
// Also records the errors of the layers. Returns empty Tensors if `x` is empty.
Transformer TransformerStack(
    Tensor x, TransformerOptions options, Tensor memory = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_MODELS_TRANSFORMER_H_
