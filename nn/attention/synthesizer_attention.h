// SPDX-License-Identifier: Apache-2.0
#ifndef NN_ATTENTION_SYNTHESIZER_ATTENTION_H_
#define NN_ATTENTION_SYNTHESIZER_ATTENTION_H_

#include <cstdint>
#include <source_location>

#include "mtf/dimension.h"
#include "mtf/tensor.h"
#include "nn/attention/attention.h"

namespace mtf::nn {

// Where the logits of a synthesizer come from.
enum class Synthesis : uint8_t {
  kRandom,            // parameters [heads, length, memory_length]
  kFactorizedRandom,  // the product of two, over .rank
  kDense,             // relu(x query) times kernel [heads, d_kv, memory_length]
  kFactorizedDense,   // the product of two of these, over rows and columns of
                      // a grid of memory_length = .rank.size * columns
};

// What is done with the logits of dot products.
enum class SynthesisMix : uint8_t {
  kNone,      // there are none, and no keys
  kSum,       // added to those of the synthesizer
  kWeighted,  // (1 - a) * dot products + a * synthesizer, with a parameter for
              // each head: a = sigmoid("mix"), initially 0.5
};

struct SynthesizerOptions {
  Synthesis kind = Synthesis::kRandom;
  SynthesisMix mix = SynthesisMix::kNone;
  // Of the factorized kinds.
  Dimension rank = Dimension();
};

// Synthesizer: self-attention whose logits are learned, not products of queries
// and keys (Tay et al., 2020).
//
//   // Weights that do not depend on x: [batch, length, d_model] -> same
//   x = x + nn::SynthesizerAttention(
//       x, {.length = length, .heads = heads, .d_kv = d_kv, .causal = true});
//   // Random and dot products, each with a learned share
//   x = x + nn::SynthesizerAttention(
//       x, attention, {.mix = nn::SynthesisMix::kWeighted});
//
// For kDense, the function of the paper from a position to logits is relu of
// the query, as in Mesh TensorFlow, then a linear layer "synthesized" of each
// head (which Mesh TensorFlow shares). kFactorizedDense multiplies a logit of
// each row of the grid and one of each column. Parameters are of the length of
// `x`: the layer is for sequences of one length. Takes the options of
// TalkingHeadsAttention; a rule for `length` or for "memory_length" shards the
// parameters too.
//
// Records kInvalidArgument in the graph if .rank is missing for a factorized
// kind, does not divide the length for kFactorizedDense, or is given without;
// and for the errors of TalkingHeadsAttention. Returns an empty Tensor if `x`
// is empty.
Tensor SynthesizerAttention(
    Tensor x, AttentionOptions options, SynthesizerOptions synthesizer = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_ATTENTION_SYNTHESIZER_ATTENTION_H_
