// SPDX-License-Identifier: Apache-2.0
#include "nn/models/resnet.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/batch_norm.h"
#include "nn/layers/convolution.h"
#include "nn/layers/dense.h"
#include "nn/layers/layer.h"
#include "nn/models/model_parts.h"
#include "ops/elementwise.h"
#include "ops/pool.h"
#include "ops/reduce.h"

namespace mtf::nn {
namespace {

constexpr char kChannels[] = "channels";
constexpr int64_t kReduction = 4;  // of the inner channels of a bottleneck

absl::Status CheckResNet(const ResNetConfig& config) {
  if (config.hidden_sizes.size() != config.depths.size() ||
      config.depths.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("hidden_sizes has ", config.hidden_sizes.size(),
                     " entries and depths has ", config.depths.size(),
                     ", but both need one for each stage"));
  }
  for (int64_t size : config.hidden_sizes) {
    if (!config.bottleneck) break;
    MTF_RETURN_IF_ERROR(CheckDivides("the reduction of a bottleneck",
                                     kReduction, "hidden_sizes", size));
  }
  return absl::OkStatus();
}

// A square convolution without a bias, and its batch norm, named `name`.
Tensor ConvNorm(Tensor x, int64_t channels, int64_t kernel, int64_t stride,
                const std::string& name) {
  const Scope scope(x.graph(), name);
  const Dimension in = x.dim(kChannels), out{kChannels, channels};
  x = Convolution(x, {{"height", kernel}, {"width", kernel}}, in, out,
                  {.window = {.stride = stride,
                              .padding = WindowPadding::kExplicit,
                              .before = kernel / 2,
                              .after = kernel / 2},
                   .bias = false,
                   .init_scale = 2});
  return BatchNorm(x, out);
}

// A block of two 3x3 convolutions, or of a 3x3 one between two 1x1 ones with
// fewer channels.
Tensor ResNetBlock(Tensor x, int64_t channels, int64_t stride,
                   const ResNetConfig& config) {
  const auto conv = [](Tensor of, int64_t to, int64_t kernel, int64_t step,
                       int number) {
    return ConvNorm(of, to, kernel, step, absl::StrCat("conv_", number));
  };
  Tensor y;
  if (config.bottleneck) {
    const int64_t inner = channels / kReduction;
    const bool first = config.downsample_in_bottleneck;
    y = Relu(conv(x, inner, 1, first ? stride : 1, 0));
    y = Relu(conv(y, inner, 3, first ? 1 : stride, 1));
    y = conv(y, channels, 1, 1, 2);
  } else {
    y = Relu(conv(x, channels, 3, stride, 0));
    y = conv(y, channels, 3, 1, 1);
  }
  if (x.dim(kChannels).size != channels || stride != 1) {
    x = ConvNorm(x, channels, 1, stride, "shortcut");
  }
  return Relu(y + x);
}

}  // namespace

absl::StatusOr<ResNetConfig> ReadResNetConfig(ConfigFields fields) {
  ResNetConfig config;
  config.num_channels = fields.Size("num_channels", 3);
  config.embedding_size = fields.Size("embedding_size", 64);
  config.hidden_sizes = fields.Sizes("hidden_sizes", config.hidden_sizes);
  config.depths = fields.Sizes("depths", config.depths);
  for (const int64_t depth : config.depths) {
    if (depth <= ConfigFields::kMostLayers) continue;
    fields.Fail("depths", absl::StrCat("has ", depth, ", more than ",
                                       ConfigFields::kMostLayers, " layers"));
  }
  const std::string type = fields.Text("layer_type", "bottleneck");
  config.bottleneck = type == "bottleneck";
  if (!config.bottleneck && type != "basic") {
    fields.Fail("layer_type", "is neither bottleneck nor basic");
  }
  config.downsample_in_first_stage =
      fields.Flag("downsample_in_first_stage", false);
  config.downsample_in_bottleneck =
      fields.Flag("downsample_in_bottleneck", false);
  config.num_labels = NumLabels(fields);
  fields.Require("hidden_act", "relu");
  MTF_RETURN_IF_ERROR(fields.status());
  MTF_RETURN_IF_ERROR(CheckResNet(config));
  return config;
}

ResNetOutputs ResNet(Tensor images, const ResNetConfig& config,
                     std::source_location location) {
  if (!images.valid()) return {};
  Graph& graph = images.graph();
  const CallSiteScope site(graph, location);
  absl::Status status = CheckResNet(config);
  if (status.ok()) {
    status = internal::CheckDimension(images, {kChannels, config.num_channels});
  }
  if (!status.ok()) {
    const Tensor failed =
        graph.Fail(status, "resnet", location, images.shape());
    return {failed, failed};
  }
  Tensor x = Relu(ConvNorm(images, config.embedding_size, 7, 2, "embedder"));
  x = MaxPool(x, {{"height", 3}, {"width", 3}},
              {.stride = 2,
               .padding = WindowPadding::kExplicit,
               .before = 1,
               .after = 1});
  for (size_t stage = 0; stage < config.depths.size(); ++stage) {
    const bool downsample = stage > 0 || config.downsample_in_first_stage;
    for (int64_t block = 0; block < config.depths[stage]; ++block) {
      const Scope scope(graph, absl::StrCat("stage_", stage, "/block_", block));
      x = ResNetBlock(x, config.hidden_sizes[stage],
                      downsample && block == 0 ? 2 : 1, config);
    }
  }
  const Tensor features =
      ReduceMean(x, x.shape().Without("height").Without("width"));
  const Tensor logits =
      Dense(features, {features.dim(kChannels)},
            {{"classes", config.num_labels}}, {.name = "dense_classifier"});
  return {features, logits};
}

WeightMap ResNetWeights(const ResNetConfig&) {
  WeightMap map;
  map.prefix = "resnet.";
  const std::string kernel = "channels channels_in kernel_height kernel_width";
  const auto conv = [&](const std::string& ours, const std::string& theirs) {
    const std::string norm = theirs + ".normalization.";
    map.rules.push_back(
        {ours + "/convolution/kernel", theirs + ".convolution.weight", kernel});
    map.rules.push_back({ours + "/batch_norm/scale", norm + "weight"});
    map.rules.push_back({ours + "/batch_norm/bias", norm + "bias"});
    map.rules.push_back(
        {ours + "/batch_norm/moving_mean", norm + "running_mean"});
    map.rules.push_back(
        {ours + "/batch_norm/moving_variance", norm + "running_var"});
    map.ignored.push_back(norm + "num_batches_tracked");
  };
  const std::string ours = "stage_*/block_*/",
                    theirs = "encoder.stages.*.layers.*.";
  conv("embedder", "embedder.embedder");
  conv(ours + "conv_*", theirs + "layer.*");
  conv(ours + "shortcut", theirs + "shortcut");
  map.rules.push_back(
      {"dense_classifier/kernel", "/classifier.1.weight", "classes channels"});
  map.rules.push_back({"dense_classifier/bias", "/classifier.1.bias"});
  return map;
}

}  // namespace mtf::nn
