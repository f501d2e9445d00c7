// SPDX-License-Identifier: Apache-2.0
#include "tools/train/classifier_model.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <source_location>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "nn/losses/cross_entropy.h"
#include "nn/models/resnet.h"
#include "nn/models/vit.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/top_k.h"

namespace mtf::tools {
namespace {

// A classifier by its config.
struct Classifier {
  std::function<Tensor(Tensor pictures)> logits;
  int64_t size = 0;  // height and width of a picture
  int64_t channels = 0;
  int64_t classes = 0;
  nn::WeightMap published;
  std::vector<float> mean, stddev;  // see TrainedModel
};

Tensor AdaptedLogits(const Classifier& classifier, Tensor pictures,
                     const ModelRequest& request) {
  std::optional<nn::AdapterScope> adapters;
  if (!request.adapters.pattern.empty()) {
    adapters.emplace(pictures.graph(), request.adapters,
                     std::source_location::current());
  }
  return classifier.logits(pictures);
}

absl::StatusOr<TrainedModel> BuildClassifier(Graph& graph,
                                             const Classifier& classifier,
                                             const ModelRequest& request) {
  const Dimension batch{"batch", request.batch},
      classes{"classes", classifier.classes};
  TrainedModel model;
  model.inputs = Input(graph, "pictures", kFloat32,
                       {batch,
                        {"height", classifier.size},
                        {"width", classifier.size},
                        {"channels", classifier.channels}});
  model.targets = Input(graph, "labels", kInt32, {batch});
  model.weights = Input(graph, "weights", kFloat32, {batch});
  model.predicts = Prediction::kClasses;
  model.published = classifier.published;
  model.has_published = true;
  model.mean = classifier.mean;
  model.stddev = classifier.stddev;
  {
    const Scope scope(graph, kModelScope);
    model.loss = nn::SoftmaxCrossEntropy(
        AdaptedLogits(classifier, model.inputs, request), classes,
        model.targets);
    model.objective = model.loss;
  }
  // The same parameters, without dropout and with the averages of batch norms.
  const Scope scope(graph, kModelScope, Scope::kReuse);
  const ModeScope mode(graph, Mode::kEvaluate);
  model.logits = AdaptedLogits(classifier, model.inputs, request);
  MTF_RETURN_IF_ERROR(graph.status());
  const Tensor count = ReduceSum(model.weights, {}),
               loss =
                   nn::SoftmaxCrossEntropy(model.logits, classes, model.targets,
                                           {.weights = model.weights}),
               right = Cast(ArgMax(model.logits, classes.name) == model.targets,
                            kFloat32);
  model.metrics = {{"loss", loss * count, count},
                   {"accuracy", ReduceSum(right * model.weights, {}), count}};
  MTF_RETURN_IF_ERROR(graph.status());
  return model;
}

}  // namespace

absl::StatusOr<TrainedModel> BuildVitClassifier(Graph& graph,
                                                const nn::ConfigFields& fields,
                                                const ModelRequest& request) {
  MTF_RETURN_IF_ERROR(CheckNoPrompt(request));
  MTF_ASSIGN_OR_RETURN(const nn::VitConfig config, nn::ReadVitConfig(fields));
  if (request.image_size != 0 && request.image_size != config.image_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("--image_size is ", request.image_size,
                     ", but the config says ", config.image_size,
                     DetailLine("help", "leave it out, or change the config")));
  }
  // What the publisher's models are trained with.
  return BuildClassifier(graph,
                         {.logits =
                              [config](Tensor pictures) {
                                return nn::Vit(pictures, config).logits;
                              },
                          .size = config.image_size,
                          .channels = config.num_channels,
                          .classes = config.num_labels,
                          .published = nn::VitWeights(config),
                          .mean = {0.5f},
                          .stddev = {0.5f}},
                         request);
}

absl::StatusOr<TrainedModel> BuildResNetClassifier(
    Graph& graph, const nn::ConfigFields& fields, const ModelRequest& request) {
  MTF_RETURN_IF_ERROR(CheckNoPrompt(request));
  MTF_ASSIGN_OR_RETURN(const nn::ResNetConfig config,
                       nn::ReadResNetConfig(fields));
  Classifier classifier = {
      .logits =
          [config](Tensor pictures) {
            return nn::ResNet(pictures, config).logits;
          },
      .size = request.image_size > 0 ? request.image_size : 224,
      .channels = config.num_channels,
      .classes = config.num_labels,
      .published = nn::ResNetWeights(config),
      .mean = {0.5f},
      .stddev = {0.5f}};
  if (config.num_channels == 3) {
    // Of ImageNet, with which the published models are trained.
    classifier.mean = {0.485f, 0.456f, 0.406f};
    classifier.stddev = {0.229f, 0.224f, 0.225f};
  }
  return BuildClassifier(graph, classifier, request);
}

}  // namespace mtf::tools
