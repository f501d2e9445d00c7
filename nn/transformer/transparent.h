// SPDX-License-Identifier: Apache-2.0
#ifndef NN_TRANSFORMER_TRANSPARENT_H_
#define NN_TRANSFORMER_TRANSPARENT_H_

#include <cstdint>
#include <source_location>
#include <string>
#include <vector>

#include "mtf/dimension.h"
#include "mtf/tensor.h"

namespace mtf::nn {

struct TransparentOptions {
  double dropout = 0;  // of the weights before their softmax
  double stddev = 0;   // of the initial weights; 0: size(states)^-0.5
  Dimension ensemble = Dimension();  // with weights of its own per element
  std::string name = "transparent";
};

// Memories for the layers of a decoder, each a mixture of the states of an
// encoder (transparent attention, Bapna et al., 2018):
//
//   memory[j] = sum over i of softmax over i of w[i, j] * states[i]
//
//   const nn::Transformer encoded = nn::TransformerStack(x, options);
//   decoder.memories = nn::TransparentMemories(encoded.states, decoder.layers);
//
// `states` have one shape and float dtype: the embedding and the results of the
// layers or of every n-th layer. The parameter "weights" is [encoder_states,
// decoder_layers].
//
// Records kInvalidArgument in the graph if `count` is less than 1, and for the
// errors of Stack and Dropout. Returns no Tensors if `states` are none or
// empty.
std::vector<Tensor> TransparentMemories(
    std::vector<Tensor> states, int64_t count, TransparentOptions options = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_TRANSFORMER_TRANSPARENT_H_
