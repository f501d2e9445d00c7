// SPDX-License-Identifier: Apache-2.0
// Build: optimised only (trains for hundreds of steps)
//
// A vision transformer and a residual network learn to read generated digits.
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nn/losses/cross_entropy.h"
#include "nn/models/resnet.h"
#include "nn/models/vit.h"
#include "nn/optimizers/adam.h"
#include "nn/optimizers/schedules.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/top_k.h"
#include "tests/matchers.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

// Digits of 5 x 3 dots, each of 2 x 2 pixels.
constexpr const char* kDigitDots[] = {
    "####.##.##.####", ".#.##..#..#.###", "###..#####..###", "###..####..####",
    "#.##.####..#..#", "####..###..####", "####..####.####", "###..#..#.#..#.",
    "####.#####.####", "####.####..####"};
constexpr int64_t kSide = 16, kPictures = 60;
const Dimension kPicture{"batch", kPictures}, kClass{"classes", 10};
const Shape kPixels = {
    kPicture, {"height", kSide}, {"width", kSide}, {"channels", 1}};

// Digits near the middle of the picture, of some brightness, with noise.
std::map<std::string, HostTensor> Digits(int seed) {
  std::mt19937 random(seed);
  // Not the distributions of the library, which differ between implementations.
  const auto uniform = [&] {
    return static_cast<float>(random() >> 8) / (1 << 24);
  };
  std::vector<float> pixels(kPixels.num_elements());
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < kPictures; ++i) {
    labels.push_back(static_cast<int32_t>(i % kClass.size));
    const int top = 2 + static_cast<int>(random() % 3),
              left = 4 + static_cast<int>(random() % 3);
    const float brightness = 0.7f + 0.3f * uniform();
    for (int64_t at = 0; at < kSide * kSide; ++at) {
      const int64_t row = at / kSide - top, column = at % kSide - left;
      const bool inside = row >= 0 && row < 10 && column >= 0 && column < 6;
      const bool ink =
          inside && kDigitDots[labels.back()][row / 2 * 3 + column / 2] == '#';
      pixels[i * kSide * kSide + at] =
          (ink ? brightness : 0) + 0.2f * (uniform() - 0.5f);
    }
  }
  return {{"images", HostTensor::Of<float>(kPixels, pixels)},
          {"labels", HostTensor::Of<int32_t>({kPicture}, labels)}};
}

// Trains a classifier for so many steps, and returns its share of new digits
// that are right.
using Classifier = Tensor (*)(Tensor images);
double Accuracy(Classifier classifier, double rate, int steps) {
  Graph graph;
  const Tensor images = Input(graph, "images", kFloat32, kPixels),
               labels = Input(graph, "labels", kInt32, {kPicture});
  Tensor loss;
  {
    const Scope network(graph, "network");
    loss = nn::SoftmaxCrossEntropy(classifier(images), kClass, labels);
  }
  const Tensor update =
      nn::AdamW({.learning_rate = nn::Schedule(rate) * nn::LinearWarmup(20) *
                                  nn::LinearDecay(steps / 2, steps)})
          .Minimize(loss);
  const Scope again(graph, "network", Scope::kReuse);
  const ModeScope mode(graph, Mode::kEvaluate);
  const Tensor right = ReduceMean(
      Cast(ArgMax(classifier(images), kClass.name) == labels, kFloat32), {});
  const auto session = Session::Create(graph, "data:2", "data");
  EXPECT_OK(session);
  if (!session.ok()) return 0;
  EXPECT_OK((*session)->Initialize());
  for (int i = 0; i < steps; ++i) {
    EXPECT_OK((*session)->Run({.feeds = Digits(i), .updates = {update}}));
  }
  double share = 0;
  constexpr int kBatches = 10;
  for (int i = 0; i < kBatches; ++i) {
    const auto values =
        (*session)->Run({.feeds = Digits(100'000 + i), .fetches = {right}});
    EXPECT_OK(values);
    if (!values.ok()) return 0;
    share += (*values)[0].ToDoubles()[0] / kBatches;
  }
  return share;
}

TEST(GeneratedDigits, AreReadByAVisionTransformer) {
  const Classifier vit = [](Tensor images) {
    return nn::Vit(images, {.hidden_size = 32,
                            .num_hidden_layers = 2,
                            .num_attention_heads = 4,
                            .intermediate_size = 64,
                            .image_size = kSide,
                            .patch_size = 4,
                            .num_channels = 1,
                            .num_labels = kClass.size})
        .logits;
  };
  EXPECT_GE(Accuracy(vit, 3e-3, 400), 0.95);
}

TEST(GeneratedDigits, AreReadByAResidualNetwork) {
  const Classifier resnet = [](Tensor images) {
    return nn::ResNet(images, {.num_channels = 1,
                               .embedding_size = 8,
                               .hidden_sizes = {16, 32},
                               .depths = {1, 1},
                               .num_labels = kClass.size})
        .logits;
  };
  EXPECT_GE(Accuracy(resnet, 1e-2, 200), 0.95);
}

}  // namespace
}  // namespace mtf::train
