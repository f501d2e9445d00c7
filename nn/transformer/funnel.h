// SPDX-License-Identifier: Apache-2.0
#ifndef NN_TRANSFORMER_FUNNEL_H_
#define NN_TRANSFORMER_FUNNEL_H_

#include <cstdint>
#include <source_location>
#include <string>
#include <vector>

#include "mtf/dimension.h"
#include "mtf/tensor.h"
#include "nn/models/transformer.h"

namespace mtf::nn {

enum class FunnelPooling : uint8_t { kMean, kMax, kMin };

struct FunnelOptions {
  std::vector<int64_t> blocks = {2, 2, 2};  // layers of each block
  // How often each layer of each block is applied, with the same parameters:
  // layers 0, 0, 1, 1 for 2. Only the first application of the first layer
  // pools. Empty: once.
  std::vector<int64_t> repeats = {};
  int64_t factor = 2;  // by which the length shrinks from block to block
  FunnelPooling pooling = FunnelPooling::kMean;
  // Of all layers. .layers is ignored, .causal an error, and .final_norm is of
  // the last block. .sublayers, .memories, .reversible, .experts and .ensemble
  // are errors.
  TransformerOptions stack = TransformerOptions();
  // Bool or any dtype, with dimensions of `x` before the model dimension: 0 or
  // false where a position is padding. A pooled position is padding if all its
  // positions are. No query attends there.
  Tensor mask = Tensor();
  std::string name = "funnel";
};

struct Funnel {
  Tensor output;  // [batch..., length, d_model], shorter
  Tensor mask;    // of the positions of the output; empty if none was given
  // The results of the blocks: lengths n, ceil(n / factor), ...
  std::vector<Tensor> states;
};

// An encoder whose sequences become shorter from block to block (funnel
// transformer, Dai et al., 2020). In the first layer of each block but the
// first, queries are pooled and keys are not:
//
//   h = pool(x) + attention(pool(x) to x)
//
// so that compression is part of the attention, as in the paper. (Mesh
// TensorFlow pools its result.)
//
//   const nn::Funnel encoded = nn::FunnelTransformer(x, {
//       .blocks = {4, 4, 4},
//       .stack = {.attention = {.length = length, .heads = heads,
//                               .d_kv = d_kv},
//                 .d_ff = d_ff}});
//   // Back to the full length, for losses of tokens
//   Tensor y = nn::FunnelUpsample(encoded.output, length, 4) +
//              encoded.states[0];
//
// Parameters are in "block_0/layer_0", ... Relative positions of .stack have a
// table for each block, "block_0/attention_bias", which its layers share; as in
// the paper, distances are those of the input, with a pooled position at its
// first. With norms before sublayers, pooling is of the normalized operand for
// the attention.
//
// Records kInvalidArgument in the graph if there are no blocks, one has no
// layer or repeat, .repeats has another number, .factor is less than 1, .d_ff
// is missing, or an option of .stack is not available; and for the errors of
// the layers. Returns empty Tensors if `x` is empty.
Funnel FunnelTransformer(
    Tensor x, FunnelOptions options,
    std::source_location location = std::source_location::current());

// `x` with each position repeated `factor` times along `length`, which has the
// size of the result: the length of `x` times the factor, or less than a factor
// below. Adds the state of the first block for the decoder of the paper.
//
// Records kInvalidArgument in the graph if `x` lacks the dimension, or its size
// does not fit. Returns an empty Tensor if `x` is empty.
Tensor FunnelUpsample(
    Tensor x, Dimension length, int64_t factor,
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_TRANSFORMER_FUNNEL_H_
