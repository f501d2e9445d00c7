// SPDX-License-Identifier: Apache-2.0
#ifndef NN_MODELS_RESNET_H_
#define NN_MODELS_RESNET_H_

#include <cstdint>
#include <source_location>
#include <vector>

#include "absl/status/statusor.h"
#include "mtf/tensor.h"
#include "nn/models/config_fields.h"
#include "nn/models/weight_map.h"

namespace mtf::nn {

// The fields of ResNet's config.json, with those of ResNet-50.
struct ResNetConfig {
  int64_t num_channels = 3;
  int64_t embedding_size = 64;
  std::vector<int64_t> hidden_sizes = {256, 512, 1024, 2048};  // by stage
  std::vector<int64_t> depths = {3, 4, 6, 3};                  // blocks
  bool bottleneck = true;  // "layer_type": otherwise "basic"
  bool downsample_in_first_stage = false;
  bool downsample_in_bottleneck = false;  // stride in the first convolution
  int64_t num_labels = 1000;
};

// kInvalidArgument for a missing or wrong field, or one whose value is not
// supported. The number of labels is that of id2label.
absl::StatusOr<ResNetConfig> ReadResNetConfig(ConfigFields fields);

struct ResNetOutputs {
  Tensor features;  // [batch, channels], the mean over the last image
  Tensor logits;    // [batch, classes]
};

// ResNet (He et al., 2016), version 1.5: convolutions with batch norms, with
// the stride of a bottleneck in its 3x3 convolution. `images` are floats
// [batch, height, width, channels] of any size. A layout may shard batch,
// height, width or channels. In a ModeScope(graph, Mode::kEvaluate) batch norms
// use their averages.
//
// Records kInvalidArgument in the graph for a config that does not fit
// together, and the errors of the layers.
ResNetOutputs ResNet(
    Tensor images, const ResNetConfig& config,
    std::source_location location = std::source_location::current());

// The weights of ResNetForImageClassification.
WeightMap ResNetWeights(const ResNetConfig& config);

}  // namespace mtf::nn

#endif  // NN_MODELS_RESNET_H_
