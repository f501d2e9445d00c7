// SPDX-License-Identifier: Apache-2.0
#ifndef NN_MODELS_LANGUAGE_MODEL_H_
#define NN_MODELS_LANGUAGE_MODEL_H_

#include <cstdint>
#include <source_location>
#include <vector>

#include "mtf/dimension.h"
#include "mtf/graph.h"
#include "mtf/tensor.h"
#include "nn/experts/experts.h"
#include "nn/losses/cross_entropy.h"

namespace mtf::nn {

// What a language model computes before its logits, so that a loss never holds
// more of these than it must.
struct LanguageModel {
  Tensor hidden;  // [batch..., length, d_model]
  // [vocab, d_model] in any order; the embedding, if tied. With a dimension for
  // each member of an ensemble that `hidden` has.
  Tensor head;
  Dimension vocab;
  std::vector<Experts> experts;  // of layers that have some
};

// A parameter "head/kernel" [d_model, vocab] for a model whose embedding is not
// tied, normal with the deviation `stddev`.
Tensor HeadKernel(
    Graph& graph, Dimension d_model, Dimension vocab, double stddev = 0.02,
    std::source_location location = std::source_location::current());

// The logits [batch..., length, vocab].
Tensor LanguageModelLogits(
    const LanguageModel& model,
    std::source_location location = std::source_location::current());

// The CrossEntropy of the model for `targets`, the next tokens [batch...,
// length], which each member of an ensemble predicts. The options are those of
// CrossEntropy, except .kernel and .each. Losses of experts are not added: they
// are in `model.experts`.
Tensor LanguageModelLoss(
    const LanguageModel& model, Tensor targets,
    CrossEntropyOptions options = {},
    std::source_location location = std::source_location::current());

// `tokens` one position later along their last dimension, beginning with
// `start`: what a decoder reads to predict `tokens`. With `segments`, integers
// that number the texts of a packed row, each of them begins with `start`.
//
//   const Tensor decoder_tokens = nn::ShiftRight(targets);
//
// Records kInvalidArgument in the graph if `tokens` or segments are not
// integers or are a scalar, or segments have other dimensions than tokens.
// Returns an empty Tensor if `tokens` are empty.
Tensor ShiftRight(
    Tensor tokens, int64_t start = 0, Tensor segments = {},
    std::source_location location = std::source_location::current());

// Which of `tokens` are inputs, in rows that alternate inputs and targets, each
// of them ended by `end`: bool, true after an even number of ends. A language
// model of such rows sees its inputs in both directions, or has no loss there:
//
//   // inputs_0 end targets_0 end inputs_1 end ...
//   const Tensor inputs = nn::DelimitedInputs(tokens, 1);
//   loss = nn::LanguageModelLoss(model, tokens,
//                                {.weights = LogicalNot(inputs)});
//
// An end belongs to what it ends. Records kInvalidArgument in the graph if
// `tokens` are not integers or are a scalar. Returns an empty Tensor if they
// are empty.
Tensor DelimitedInputs(
    Tensor tokens, int64_t end = 1,
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_MODELS_LANGUAGE_MODEL_H_
