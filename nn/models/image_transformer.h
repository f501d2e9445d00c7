// SPDX-License-Identifier: Apache-2.0
#ifndef NN_MODELS_IMAGE_TRANSFORMER_H_
#define NN_MODELS_IMAGE_TRANSFORMER_H_

#include <cstdint>
#include <source_location>
#include <string>

#include "absl/status/statusor.h"
#include "mtf/tensor.h"
#include "nn/models/config_fields.h"
#include "nn/models/language_model.h"

namespace mtf::nn {

// The hyper-parameters of tensor2tensor's mtf_image_transformer with the values
// of mtf_image_transformer_base.
struct ImageTransformerConfig {
  int64_t img_len = 32;  // rows, and pixels in a row
  int64_t num_channels = 3;
  int64_t vocab_size = 256;  // values of a channel of a pixel
  int64_t hidden_size = 256;
  int64_t d_kv = 64;
  int64_t d_ff = 2048;
  int64_t num_heads = 8;
  int64_t num_decoder_layers = 6;
  // What a position attends to, among those before it and itself:
  //   "local1d"          the last block_length, as in the reference
  //   "local1d_spatial"  those up to block_length before it
  //   "local2d_spatial"  those up to block_height rows above it and block_width
  //                      columns aside
  std::string attention_type = "local1d";
  int64_t block_length = 128;
  int64_t block_height = 16;
  int64_t block_width = 16;
  double dropout = 0.2;  // of hidden units of feed-forward layers
  double layer_prepostprocess_dropout = 0.1;
  double norm_epsilon = 1e-6;

  int64_t columns() const { return img_len * num_channels; }
  int64_t length() const { return img_len * columns(); }
};

// kInvalidArgument for a missing or wrong field, or one whose value is not
// supported.
absl::StatusOr<ImageTransformerConfig> ReadImageTransformerConfig(
    ConfigFields fields);

// Image Transformer (Parmar et al., 2018) for unconditional generation,
// tensor2tensor's MtfImageTransformer: a decoder of the channels of pixels in
// row-major order, with local attention, learned rows and columns, norms before
// sublayers, ReLU, and no biases.
//
//   // pixels: integers [batch, length] of 32 * 32 * 3
//   const nn::LanguageModel model =
//       nn::ImageTransformer(nn::ShiftRight(pixels), config);
//   Tensor loss = nn::LanguageModelLoss(model, pixels);
//
// The dimensions of a layer are length, or "rows" and "columns" for
// "local2d_spatial"; and d_model, heads, d_kv, d_ff and vocab. A layout may
// shard each of them; shards of the image send neighbours what they attend to.
//
// Differences from the reference: there, "spatial" attention is to blocks, also
// to later pixels where it is in two dimensions, and layouts shard the numbers
// of blocks; columns from img_len on have no position; the projection to values
// has a bias; and dropout is drawn once for all of an image.
//
// Records kInvalidArgument in the graph for tokens of another length than
// img_len * img_len * num_channels, an unknown attention, and the errors of the
// layers.
LanguageModel ImageTransformer(
    Tensor tokens, const ImageTransformerConfig& config,
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_MODELS_IMAGE_TRANSFORMER_H_
