// SPDX-License-Identifier: Apache-2.0
//
// Trains a convolutional network to read digits that the program draws, and
// reports how many of new ones it reads.
//
//   build/release/bin/image_classifier
//   build/release/bin/image_classifier --mesh_shape=rows:2,columns:2
//       --layout='height:rows, width:columns'
//
// The second command shards every picture over four devices: convolutions and
// pooling exchange the rows and columns at the borders of the shards, batch
// norms reduce their statistics, and the losses stay the same.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "mtf/mtf.h"

using mtf::train::Size;

ABSL_FLAG(Size, batch, 32, "pictures per step");
ABSL_FLAG(Size, size, 16, "rows and columns of a picture, at least 12");
ABSL_FLAG(Size, channels, 16, "channels of the first convolution");

namespace mtf {
namespace {

const Dimension kColors{"colors", 1}, kDigits{"digit", 10};

// Convolution, batch norm, activation; then half as many rows and columns.
Tensor Block(Tensor x, const Dimension& in, const Dimension& out) {
  x = nn::Convolution(x, {{"height", 3}, {"width", 3}}, in, out,
                      {.bias = false, .init_scale = 2});
  x = Relu(nn::BatchNorm(x, out));
  return MaxPool(x, {{"height", 2}, {"width", 2}});
}

// Pictures [batch, height, width, colors] to logits [batch, digit].
Tensor Network(Tensor x) {
  const Dimension batch = x.dim("batch"),
                  channels{"channels", absl::GetFlag(FLAGS_channels)},
                  features{"features", 2 * channels.size};
  x = Block(x, kColors, channels);
  x = Block(x, channels, features);
  // The shape of a digit matters, not where it is.
  x = ReduceMax(x, {batch, features});
  return nn::Dense(x, {features}, {kDigits});
}

struct Model {
  Tensor pictures, labels;
  Tensor loss, step;
  // In evaluation: how many digits of a batch the network reads, and how many
  // there are.
  Tensor correct, count;
};

Model BuildModel(Graph& graph) {
  const Dimension batch{"batch", absl::GetFlag(FLAGS_batch)},
      height{"height", absl::GetFlag(FLAGS_size)},
      width{"width", absl::GetFlag(FLAGS_size)};
  Model model;
  model.pictures =
      Input(graph, "pictures", kFloat32, {batch, height, width, kColors});
  model.labels = Input(graph, "labels", kInt32, {batch});
  {
    Scope scope(graph, "network");
    const Tensor logits = Network(model.pictures);
    model.loss = nn::SoftmaxCrossEntropy(logits, kDigits, model.labels);
  }
  // Also moves the averages of the batch norms.
  const nn::Schedule rate(absl::GetFlag(FLAGS_learning_rate));
  model.step = nn::AdamW({.learning_rate = rate}).Minimize(model.loss);
  // The same network, which normalizes with these averages.
  Scope scope(graph, "network", Scope::kReuse);
  ModeScope mode(graph, Mode::kEvaluate);
  const Tensor guess = ArgMax(Network(model.pictures), "digit");
  const Tensor right = Cast(guess == model.labels, kFloat32);
  model.correct = ReduceSum(right, {});
  model.count = ReduceSum(Ones(graph, kFloat32, right.shape()), {});
  return model;
}

// The lit segments of each digit: top, upper left, upper right, middle, lower
// left, lower right, bottom.
constexpr std::array<const char*, 10> kSegments = {
    "1110111", "0010010", "1011101", "1011011", "0111010",
    "1101011", "1101111", "1010010", "1111111", "1111011"};

// Draws `digit`, 9 rows by 5 columns, somewhere into a noisy picture.
void Draw(int digit, int size, std::mt19937& random, float* picture) {
  const auto below = [&](int most) {
    return static_cast<int>(random() % most);
  };
  std::normal_distribution<float> noise(0, 0.3f);
  for (int i = 0; i < size * size; ++i) picture[i] = noise(random);
  const int top = below(size - 9), left = below(size - 5);
  const char* lit = kSegments[digit];
  const auto line = [&](int segment, int row, int column, int rows,
                        int columns) {
    if (lit[segment] == '0') return;
    for (int y = row; y < row + rows; ++y) {
      for (int x = column; x < column + columns; ++x) {
        picture[(top + y) * size + left + x] += 1;
      }
    }
  };
  line(0, 0, 1, 1, 3);
  line(1, 1, 0, 3, 1);
  line(2, 1, 4, 3, 1);
  line(3, 4, 1, 1, 3);
  line(4, 5, 0, 3, 1);
  line(5, 5, 4, 3, 1);
  line(6, 8, 1, 1, 3);
}

// The feeds of a step. They depend on nothing else, so every process of a job
// has the same.
std::map<std::string, HostTensor> Pictures(const Model& model, uint32_t step) {
  const Shape& shape = model.pictures.shape();
  const int count = static_cast<int>(shape[0].size),
            size = static_cast<int>(shape[1].size);
  std::mt19937 random(1000003u * absl::GetFlag(FLAGS_seed) + step);
  std::vector<float> pixels(shape.num_elements());
  std::vector<int32_t> labels(count);
  for (int i = 0; i < count; ++i) {
    labels[i] = static_cast<int32_t>(random() % 10);
    Draw(labels[i], size, random, &pixels[i * size * size]);
  }
  return {{"pictures", HostTensor::Of<float>(shape, pixels)},
          {"labels", HostTensor::Of<int32_t>(model.labels.shape(), labels)}};
}

absl::Status Main() {
  if (absl::GetFlag(FLAGS_size) < 12) {
    return absl::InvalidArgumentError("--size must be at least 12");
  }
  Graph graph;
  const Model model = BuildModel(graph);
  MTF_ASSIGN_OR_RETURN(
      const std::unique_ptr<train::Session> session,
      train::StartSession(
          graph, {{"train", {.fetches = {model.loss}, .updates = {model.step}}},
                  {"evaluate", {.fetches = {model.correct, model.count}}}}));
  using Feeds = std::map<std::string, HostTensor>;
  const auto feeds = [&](int64_t number) -> absl::StatusOr<Feeds> {
    return Pictures(model, static_cast<uint32_t>(number));
  };
  // Pictures that are not trained on.
  constexpr int64_t kFirstNew = int64_t{1} << 31;
  const train::Evaluation evaluation = {
      .metrics = {{"correct", model.correct, model.count}},
      .batches = 8,
      .feeds = [&](int64_t number) { return feeds(kFirstNew + number); }};
  MTF_RETURN_IF_ERROR(
      train::TrainWithFlags(
          *session, {.loss = model.loss,
                     .update = model.step,
                     .steps = absl::GetFlag(FLAGS_steps),
                     .feeds = feeds,
                     .tokens_per_step = model.labels.shape().num_elements(),
                     .log_json = absl::GetFlag(FLAGS_log_json),
                     .evaluate = {.evaluation = evaluation}})
          .status());
  MTF_ASSIGN_OR_RETURN(const train::MetricValues values,
                       train::Evaluate(*session, evaluation));
  train::Say(absl::StrFormat("reads %.1f %% of new digits",
                             100 * values.at("correct")));
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  return mtf::train::RunMain(
      argc, argv, "Trains a network that reads drawn digits.", &mtf::Main);
}
