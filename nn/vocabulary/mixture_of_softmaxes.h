// SPDX-License-Identifier: Apache-2.0
//
// Output layers of more than the rank d_model, where one softmax of a linear
// function is a bottleneck.
#ifndef NN_VOCABULARY_MIXTURE_OF_SOFTMAXES_H_
#define NN_VOCABULARY_MIXTURE_OF_SOFTMAXES_H_

#include <cstdint>
#include <source_location>
#include <string>

#include "mtf/dimension.h"
#include "mtf/tensor.h"

namespace mtf::nn {

struct MixtureOfSoftmaxesOptions {
  Dimension components = {"components", 4};
  // [vocab, d_model] in any order, such as the table of the embedding. Empty:
  // new parameters.
  Tensor table = Tensor();
  std::string name = "mixture_of_softmaxes";
};

// Log probabilities of a mixture of softmaxes (Yang et al., 2018), f32 [...,
// vocab]:
//
//   log sum over k of softmax(x prior)[k] * softmax(tanh(x context[k]) table)
//
//   // [batch, length, d_model] -> [batch, length, vocab]
//   Tensor logits = nn::MixtureOfSoftmaxes(x, vocab);
//   Tensor loss = nn::SoftmaxCrossEntropy(logits, vocab, targets);
//
// The result is its own log softmax, so it can serve as logits. Parameters are
// "prior" [d_model, components] and "context" [d_model, components, d_model],
// without biases as in Mesh TensorFlow. Records kInvalidArgument in the graph
// if `x` is not a float or a scalar, there is no component, or the table has
// other dimensions. Returns an empty Tensor if `x` is empty.
Tensor MixtureOfSoftmaxes(
    Tensor x, Dimension vocab, MixtureOfSoftmaxesOptions options = {},
    std::source_location location = std::source_location::current());

struct MixtapeOptions {
  Dimension d_gate = {"d_gate", 32};
  // The tokens 0 to frequent - 1 have gates of their own; all others share
  // one. -1: a tenth of the vocabulary.
  int64_t frequent = -1;
  double dropout = 0;  // of logits of components and the hidden layer of gates
  double noise = 0;    // deviation of normal noise added to gates, in training
  Tensor table = Tensor();  // as above
  std::string name = "mixtape";
};

// Logits of Mixtape (Yang et al., 2019): one softmax of a mixture of four
// logits, whose weights differ by token.
//
//   logits[v] = sum over k of pi[v, k] * tanh(x context[k] + bias[k]) table[v]
//
// The weights pi of a token are leaves of a tree of three sigmoids:
// s1 s2, s1 (1 - s2), (1 - s1) s3, (1 - s1) (1 - s3), of
//
//   s[v, j] = sigmoid(u[v] tanh(x gate[j] + gate_bias[j]) + x shared[j] + b[v,
//   j])
//
// for frequent tokens, and of sigmoid(x shared[j]) for the others.
//
//   Tensor logits = nn::Mixtape(x, vocab, {.frequent = 4000});
//
// Records kInvalidArgument in the graph for the errors above, and if .frequent
// is outside [-1, vocab], dropout outside [0, 1) or noise negative.
Tensor Mixtape(Tensor x, Dimension vocab, MixtapeOptions options = {},
               std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_VOCABULARY_MIXTURE_OF_SOFTMAXES_H_
