// SPDX-License-Identifier: Apache-2.0
#ifndef NN_MODELS_MESH_TRANSFORMER_H_
#define NN_MODELS_MESH_TRANSFORMER_H_

#include <cstdint>
#include <source_location>
#include <string>

#include "absl/status/statusor.h"
#include "mtf/tensor.h"
#include "nn/models/config_fields.h"
#include "nn/models/language_model.h"

namespace mtf::nn {

// The hyper-parameters of tensor2tensor's mtf_transformer with the values of
// mtf_transformer_base; those of mtf_transformer2, the models unitransformer
// and bitransformer, are these, too. Layers are counted, where the reference
// lists them.
struct MeshTransformerConfig {
  // "encdec": an encoder, and a decoder that attends to it; "decoder": a
  // language model; "encoder": targets of the same length, each position of
  // which depends on all of the input.
  std::string transformer_type = "encdec";
  int64_t vocab_size = 32768;  // the reference rounds up to multiples of 128
  int64_t max_length = 256;    // rows of the table of positions
  int64_t d_model = 512;
  int64_t d_kv = 128;
  int64_t d_ff = 2048;
  int64_t num_heads = 8;
  int64_t num_encoder_layers = 6;
  int64_t num_decoder_layers = 6;
  double attention_dropout = 0.1;
  double relu_dropout = 0.1;
  double layer_prepostprocess_dropout = 0.1;
  double label_smoothing = 0.1;
  double z_loss = 0;  // of CrossEntropyOptions
  double norm_epsilon = 1e-6;
  // Of both stacks of "encdec".
  bool shared_embedding = true;
  bool shared_embedding_and_softmax_weights = true;
};

// kInvalidArgument for a missing or wrong field. Without dropouts and
// num_decoder_layers the values above and num_encoder_layers hold.
absl::StatusOr<MeshTransformerConfig> ReadMeshTransformerConfig(
    ConfigFields fields);

// The transformer of Mesh-TensorFlow (Shazeer et al., 2018), tensor2tensor's
// MtfTransformer: RMS norms before sublayers and after each stack, no biases,
// ReLU, and learned positions that both stacks share.
//
//   // tokens [batch, length], targets [batch, length] of another size
//   const nn::LanguageModel model = nn::MeshTransformer(
//       tokens, nn::ShiftRight(targets), config);
//   Tensor loss = nn::LanguageModelLoss(
//       model, targets, {.label_smoothing = config.label_smoothing});
//
// `tokens` are read by the encoder, which ignores 0, the padding, and are empty
// for the type "decoder"; `decoder_tokens` are empty for the type "encoder".
// Both lengths may have one name; the encoder's result has "memory_length" in
// its place. Other dimensions are d_model, heads, d_kv, d_ff, vocab, and
// "positions" of the table.
//
// Differences from the reference: dropout is drawn for each position, not once
// for all of a sequence; products of queries and keys are scaled by d_kv^-0.5,
// not the initial values of both by d_kv^-0.25; logits are not multiplied by
// random factors from 0.99 to 1.01 in training.
//
// Records kInvalidArgument in the graph for tokens that are not as above or
// longer than max_length, an unknown type, and the errors of the layers.
LanguageModel MeshTransformer(
    Tensor tokens, Tensor decoder_tokens, const MeshTransformerConfig& config,
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_MODELS_MESH_TRANSFORMER_H_
