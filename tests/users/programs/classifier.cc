// SPDX-License-Identifier: Apache-2.0
//
// Classifies points that lie around five centers: data from the host, two
// layers, and the share of points that the network classifies correctly.
//
// Layout: data:2 | batch:data
// Layout: data:2,model:2 | batch:data, hidden:model
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "mtf/mtf.h"
using namespace mtf;

const Dimension batch{"batch", 60}, feature{"feature", 12},
    hidden{"hidden", 32}, classes{"class", 5};

// A batch of points and the centers they belong to.
std::map<std::string, HostTensor> Points(int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> noise(0, 0.3f);
  std::vector<float> points;
  std::vector<int32_t> labels;
  for (int i = 0; i < batch.size; ++i) {
    labels.push_back(i % classes.size);
    for (int j = 0; j < feature.size; ++j) {
      const bool belongs = j % classes.size == labels.back();
      points.push_back((belongs ? 1.0f : 0.0f) + noise(random));
    }
  }
  return {{"points", HostTensor::Of<float>({batch, feature}, points)},
          {"labels", HostTensor::Of<int32_t>({batch}, labels)}};
}

absl::Status Classify() {
  Graph graph;
  Tensor points = Input(graph, "points", kFloat32, {batch, feature});
  Tensor labels = Input(graph, "labels", kInt32, {batch});
  Tensor h = nn::Dense(points, {feature}, {hidden}, {.activation = Relu});
  Tensor logits = nn::Dense(h, {hidden}, {classes});
  Tensor loss = nn::SoftmaxCrossEntropy(logits, classes, labels);
  Tensor right = Cast(ArgMax(logits, "class") == labels, kFloat32);
  Tensor accuracy = ReduceMean(right, {});
  Tensor step = nn::AdamW({.learning_rate = 0.01}).Minimize(loss);

  train::RunRequest training = {.fetches = {loss}, .updates = {step}};
  MTF_ASSIGN_OR_RETURN(auto session, train::StartSession(graph, training));
  for (int i = 0; i < 40; ++i) {
    training.feeds = Points(i);
    MTF_ASSIGN_OR_RETURN(auto values, session->Run(training));
    MTF_ASSIGN_OR_RETURN(const double now, values[0].At(0));
    if (i % 13 == 0) train::Say(absl::StrFormat("result loss %.9f", now));
  }
  // Points that the network has not seen. Without updates nothing changes.
  MTF_ASSIGN_OR_RETURN(auto values, session->Run({.feeds = Points(1000),
                                                  .fetches = {accuracy}}));
  MTF_ASSIGN_OR_RETURN(const double share, values[0].At(0));
  train::Say(absl::StrFormat("result accuracy %.9f", share));
  if (!(share >= 0.95))
    return absl::InternalError("the classifier has not learned");
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  return train::RunMain(argc, argv, "Classifies points.", &Classify);
}
