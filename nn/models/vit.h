// SPDX-License-Identifier: Apache-2.0
#ifndef NN_MODELS_VIT_H_
#define NN_MODELS_VIT_H_

#include <cstdint>
#include <source_location>
#include <string>

#include "absl/status/statusor.h"
#include "mtf/tensor.h"
#include "nn/models/config_fields.h"
#include "nn/models/weight_map.h"

namespace mtf::nn {

// The fields of ViT's config.json, with those of the base model.
struct VitConfig {
  int64_t hidden_size = 768;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t intermediate_size = 3072;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0;
  double attention_probs_dropout_prob = 0;
  double layer_norm_eps = 1e-12;
  int64_t image_size = 224;
  int64_t patch_size = 16;
  int64_t num_channels = 3;
  int64_t num_labels = 1000;
};

// kInvalidArgument for a missing or wrong field, or one whose value is not
// supported. The number of labels is that of id2label.
absl::StatusOr<VitConfig> ReadVitConfig(ConfigFields fields);

struct VitOutputs {
  Tensor hidden;  // [batch..., length, d_model]: a class token, then patches
  Tensor logits;  // [batch..., classes]
};

// ViT (Dosovitskiy et al., 2021) for classification: patches of an image as
// tokens of an encoder with learned positions and norms before sublayers.
// `images` are floats [batch..., height, width, channels] of image_size.
// Dimensions are length, d_model, heads, d_kv, d_ff and classes.
//
// Records kInvalidArgument in the graph for images of other sizes, and the
// errors of the layers.
VitOutputs Vit(Tensor images, const VitConfig& config,
               std::source_location location = std::source_location::current());

// The weights of ViTForImageClassification.
WeightMap VitWeights(const VitConfig& config);

}  // namespace mtf::nn

#endif  // NN_MODELS_VIT_H_
