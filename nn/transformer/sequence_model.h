// SPDX-License-Identifier: Apache-2.0
//
// Models of sequences of tokens from the options of their stacks: a decoder, an
// encoder, and an encoder with a decoder. Each is an embedding, maybe
// positions, a TransformerStack and the projection to logits. Published models
// with their own names of parameters are in nn/models/.
#ifndef NN_TRANSFORMER_SEQUENCE_MODEL_H_
#define NN_TRANSFORMER_SEQUENCE_MODEL_H_

#include <cstdint>
#include <source_location>

#include "mtf/dimension.h"
#include "mtf/tensor.h"
#include "nn/models/language_model.h"
#include "nn/models/transformer.h"
#include "nn/transformer/transparent.h"

namespace mtf::nn {

// What is added to embeddings. Relative and rotary positions are options of the
// stacks.
enum class PositionKind : uint8_t {
  kNone,
  kLearned,   // PositionEmbedding
  kSinusoid,  // SinusoidPositions
};

struct SequenceModelOptions {
  Dimension vocab = Dimension();
  Dimension d_model = Dimension();
  PositionKind positions = PositionKind::kNone;
  // The stacks. Their lengths are those of the tokens and can be left out;
  // self-attention of a decoder is causal. One can be a copy of the other,
  // unless their .layers are to differ.
  TransformerOptions encoder = TransformerOptions();
  TransformerOptions decoder = TransformerOptions();
  double embedding_stddev = 1;  // of the normal initial values
  double dropout = 0;           // of the embedded tokens
  // Whether the embedding is also the projection to logits. Then the hidden
  // state is multiplied by d_model^-0.5 before it, as in T5, so that logits
  // have the variance of the hidden state.
  bool tied = true;
  // Of EncoderDecoderModel: whether encoder and decoder share the embedding.
  bool shared_embedding = true;
  // Bool, or any dtype, with the dimensions of the tokens of an encoder: 0 or
  // false where they are padding. No query attends there.
  Tensor mask = Tensor();
  // Of EncoderDecoderModel: each layer of the decoder attends to a learned
  // mixture of the layers of the encoder (TransparentMemories).
  bool transparent = false;
  TransparentOptions transparency = TransparentOptions();
  // An ensemble of so many models, each with parameters of its own: `hidden`
  // and `head` have this dimension. See EnsembleLogits.
  Dimension ensemble = Dimension();
};

// A language model: predicts each of `tokens` [batch..., length] from those
// before it. The scope of its stack is "decoder".
//
//   const nn::LanguageModel model = nn::DecoderModel(
//       nn::ShiftRight(targets),
//       {.vocab = vocab, .d_model = d_model,
//        .positions = nn::PositionKind::kSinusoid,
//        .decoder = {.layers = 6,
//                    .attention = {.heads = heads, .d_kv = d_kv},
//                    .d_ff = d_ff}});
//   Tensor loss = nn::LanguageModelLoss(model, targets);
//
// Records kInvalidArgument in the graph if `tokens` are not integers or are a
// scalar; if .vocab or .d_model is missing; if the mask has other dimensions
// than the tokens; and for the errors of Embedding and TransformerStack.
// Returns empty Tensors if `tokens` are empty.
LanguageModel DecoderModel(
    Tensor tokens, SequenceModelOptions options,
    std::source_location location = std::source_location::current());

// An encoder in which each position sees all of `tokens`, such as for masked
// tokens. The scope of its stack is "encoder". As above.
LanguageModel EncoderModel(
    Tensor tokens, SequenceModelOptions options,
    std::source_location location = std::source_location::current());

// An encoder of `tokens` [batch..., length], and a decoder of `decoder_tokens`
// [batch..., target_length] that attends to its result (Vaswani et al., 2017).
//
//   const nn::LanguageModel model =
//       nn::EncoderDecoderModel(tokens, nn::ShiftRight(targets), options);
//   Tensor loss = nn::LanguageModelLoss(model, targets);
//
// Both lengths may have one name: the result of the encoder has "memory_length"
// in its place. The experts are those of the encoder, then of the decoder. As
// above; also records kInvalidArgument if .transparent is set with a reversible
// encoder.
LanguageModel EncoderDecoderModel(
    Tensor tokens, Tensor decoder_tokens, SequenceModelOptions options,
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_TRANSFORMER_SEQUENCE_MODEL_H_
