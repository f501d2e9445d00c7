// SPDX-License-Identifier: Apache-2.0
//
// Two convolutions with max pooling tell images of horizontal stripes from
// images of vertical ones.
//
// Layout: data:2 | batch:data
// Layout: rows:2 | height:rows
// Layout: rows:2,columns:2 | height:rows, width:columns
// Layout: data:2,model:2 | batch:data, channels:model
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "mtf/mtf.h"
using namespace mtf;

const Dimension batch{"batch", 16}, height{"height", 8}, width{"width", 8},
    colors{"colors", 1}, channels{"channels", 8}, features{"features", 8},
    classes{"class", 2}, kh{"kh", 3}, kw{"kw", 3};

// Convolves [batch, height, width, in] to [batch, height, width, out] with
// kernels of 3 x 3 and zeros around the image.
Tensor Convolution(
    Tensor x, Dimension in, Dimension out,
    std::source_location location = std::source_location::current()) {
  Graph& graph = x.graph();
  nn::LayerScope layer(graph, "convolution", location);
  Tensor windows = Windows(Windows(x, "height", kh), "width", kw);
  Tensor kernel =
      nn::Kernel(graph, "kernel", {kh, kw, in}, {out}, x.dtype(), {.scale = 2});
  Tensor bias =
      nn::Parameter(graph, "bias", Zeros(graph, kFloat32, {out}), x.dtype());
  Shape shape = x.shape().Without(in.name).With(out);
  return Relu(Einsum({windows, kernel}, shape) + bias);
}

// The maximum of every two elements along `dim`, which becomes half as long.
Tensor Pool(Tensor x, const std::string& dim) {
  const WindowOptions pairs = {.stride = 2, .fill = -INFINITY};
  return MaxOver(Windows(x, dim, {"pair", 2}, pairs), {{"pair", 2}});
}

std::map<std::string, HostTensor> Images(int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> noise(0, 0.5f);
  std::vector<float> pixels;
  std::vector<int32_t> labels;
  for (int i = 0; i < batch.size; ++i) {
    labels.push_back(i % 2);
    for (int y = 0; y < height.size; ++y) {
      for (int x = 0; x < width.size; ++x) {
        const bool bright = ((i % 2 == 0 ? x : y) + i / 2) % 2 == 0;
        pixels.push_back((bright ? 1.0f : -1.0f) + noise(random));
      }
    }
  }
  return {
      {"images", HostTensor::Of<float>({batch, height, width, colors}, pixels)},
      {"labels", HostTensor::Of<int32_t>({batch}, labels)}};
}

absl::Status Learn() {
  Graph graph;
  Tensor x = Input(graph, "images", kFloat32, {batch, height, width, colors});
  Tensor labels = Input(graph, "labels", kInt32, {batch});
  x = Pool(Pool(Convolution(x, colors, channels), "height"), "width");
  x = Convolution(x, channels, features);
  x = ReduceMean(x, {batch, features});
  Tensor logits = nn::Dense(x, {features}, {classes});
  Tensor loss = nn::SoftmaxCrossEntropy(logits, classes, labels);
  Tensor step = nn::AdamW({.learning_rate = 0.003}).Minimize(loss);

  train::RunRequest request = {.fetches = {loss}, .updates = {step}};
  MTF_ASSIGN_OR_RETURN(auto session, train::StartSession(graph, request));
  double now = 0;
  for (int i = 0; i < 25; ++i) {
    request.feeds = Images(i);
    MTF_ASSIGN_OR_RETURN(auto values, session->Run(request));
    MTF_ASSIGN_OR_RETURN(now, values[0].At(0));
    if (i % 8 == 0) train::Say(absl::StrFormat("result loss %.9f", now));
  }
  return now < 0.3 ? absl::OkStatus() : absl::InternalError("no learning");
}

int main(int argc, char** argv) {
  return train::RunMain(argc, argv, "Trains a convolution.", &Learn);
}
