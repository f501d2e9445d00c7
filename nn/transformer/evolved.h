// SPDX-License-Identifier: Apache-2.0
//
// The blocks of the evolved transformer (So et al., 2019), which an
// evolutionary search found: a gated linear unit and convolutions before
// attention. A stack of so many blocks replaces twice as many layers of a
// transformer.
#ifndef NN_TRANSFORMER_EVOLVED_H_
#define NN_TRANSFORMER_EVOLVED_H_

#include <source_location>
#include <string>

#include "mtf/dimension.h"
#include "mtf/tensor.h"
#include "nn/models/transformer.h"

namespace mtf::nn {

struct EvolvedOptions {
  // Of self-attention: .length, .heads, .d_kv and masks. Causal in a decoder,
  // whose first self-attention has twice as many heads of half of .d_kv (and
  // .d_v) each, which must be even.
  AttentionOptions attention = AttentionOptions();
  // Of the attention of a decoder to its memory; without .length, .heads or
  // .d_kv those of `attention`.
  AttentionOptions memory_attention = AttentionOptions();
  // Hidden units of the wide branch and of the feed-forward layer; the paper
  // has 4 d_model. At least 2 d_model.
  Dimension d_ff = Dimension();
  // Norm, position and dropout of all residual sums. .dropout is also that of
  // the branches of convolutions.
  ResidualOptions residual = ResidualOptions();
  std::string name = "evolved";
};

// A block of the encoder:
//
//   x + GLU(norm(x))
//   x + SeparableConvolution 9 (h(norm(x)))
//   x + SelfAttention(norm(x))
//   x + FeedForward(norm(x), Relu)
//
//   h(x) = norm(relu(Dense(x)) + relu(Convolution 3 (x)))
//
// The narrow branch has d_model / 2 channels and zeros beyond them, as has the
// result of the second convolution.
//
//   for (int i = 0; i < 3; ++i) {
//     x = nn::EvolvedEncoderBlock(x, {.attention = attention, .d_ff = d_ff});
//   }
//
// `x` is [batch..., length, d_model], with an even d_model. Records
// kInvalidArgument in the graph if it is not, if .d_ff is missing or too small,
// and for the errors of the layers. Returns an empty Tensor if `x` is empty.
Tensor EvolvedEncoderBlock(
    Tensor x, EvolvedOptions options,
    std::source_location location = std::source_location::current());

// A block of the decoder, which attends to `memory` [batch..., memory_length,
// d_model]. Convolutions read positions before only.
//
//   x + SelfAttention(norm(x)) + attention to memory (norm(x))
//   x + SeparableConvolution 7 (h(norm(x)))
//   x + SelfAttention(norm(x))
//   x + attention to memory (norm(x))
//   x + FeedForward(norm(x), Swish)
//
//   h(x) = norm(relu(SeparableConvolution 11 (x)) + SeparableConvolution 7 (x))
//
// The first self-attention has twice as many heads of half the size. (The
// published code has no more than 16 there, unless others have more.)
// Without a memory, as for a language model, leaves out its attention.
//
// Errors are those of EvolvedEncoderBlock; also kInvalidArgument if .d_kv or
// .d_v of .attention is odd.
Tensor EvolvedDecoderBlock(
    Tensor x, EvolvedOptions options, Tensor memory = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_TRANSFORMER_EVOLVED_H_
