// SPDX-License-Identifier: Apache-2.0
//
// Lesson 11: evaluate and keep the best. A network with few examples learns
// them by heart: on others it gets better, then worse. The loop evaluates on
// held-out examples, ends when they do not get better, and has kept the
// parameters that were the best.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "mtf/mtf.h"

namespace mtf {
namespace {

using Feeds = std::map<std::string, HostTensor>;
const Dimension kBatch{"batch", 8}, kIn{"in", 12}, kHidden{"hidden", 64};

// Examples `first` to `first` + 7 of noisy sums. Those from `end` on do not
// exist: they are padding of weight 0.
Feeds Examples(int64_t first, int64_t end) {
  std::vector<float> x(kBatch.size * kIn.size), y(kBatch.size),
      weights(kBatch.size, 0);
  for (int64_t row = 0; row < kBatch.size; ++row) {
    const auto example = static_cast<double>(first + row);
    for (int64_t i = 0; i < kIn.size; ++i) {
      x[row * kIn.size + i] =
          static_cast<float>(std::sin(12.9898 * example + 78.233 * i * i));
    }
    y[row] = x[row * kIn.size] + x[row * kIn.size + 1] +
             static_cast<float>(std::sin(4711 * example));  // noise
    if (first + row < end) weights[row] = 1;
  }
  return {{"x", HostTensor::Of<float>({kBatch, kIn}, x)},
          {"y", HostTensor::Of<float>({kBatch}, y)},
          {"weights", HostTensor::Of<float>({kBatch}, weights)}};
}

absl::Status Main() {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kIn}),
               y = Input(graph, "y", kFloat32, {kBatch}),
               weights = Input(graph, "weights", kFloat32, {kBatch});
  const Tensor h = Gelu(nn::Dense(x, {kIn}, {kHidden}));
  const Tensor guess =
      ReduceSum(nn::Dense(h, {kHidden}, {{"out", 1}}), {kBatch});
  const Tensor error = Square(guess - y);
  const Tensor loss = ReduceMean(error, {});
  const Tensor step = nn::AdamW({.learning_rate = 1e-2}).Minimize(loss);
  // The error of the examples, and their number: of the last batch, 5.
  const train::Metric held_out_error = {"error", ReduceSum(error * weights, {}),
                                        ReduceSum(weights, {})};

  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<train::Session> session,
                       train::Session::Create(graph, "data:2", "batch:data"));
  MTF_RETURN_IF_ERROR(session->Initialize());
  const std::string folder = (std::filesystem::temp_directory_path() /
                              absl::StrCat("mtf_lesson_11_", getpid()))
                                 .string();
  MTF_ASSIGN_OR_RETURN(
      const std::unique_ptr<train::CheckpointStore> store,
      train::CheckpointStore::Open(
          *session, folder, {.keep = 1, .best = train::BestMetric::kLowest}));

  const train::Evaluation held_out = {
      .metrics = {held_out_error},
      .batches = 8,  // 61 examples
      .feeds = [](int64_t i) -> absl::StatusOr<Feeds> {
        return Examples(1000 + 8 * i, 1061);
      }};
  MTF_ASSIGN_OR_RETURN(
      const train::TrainingResult result,
      train::Train(*session, {.loss = loss,
                              .update = step,
                              .steps = 2000,
                              // Sixteen examples, again and again.
                              .feeds = [](int64_t i) -> absl::StatusOr<Feeds> {
                                return Examples(8 * (i % 2), 16);
                              },
                              .tokens_per_step = kBatch.size,
                              .evaluate = {.evaluation = held_out,
                                           .every = 10,
                                           .best = "error",
                                           .patience = 5},
                              .saving = {.store = store.get()}}));
  MTF_ASSIGN_OR_RETURN(const train::MetricValues last,
                       train::Evaluate(*session, held_out));
  // Back to the best.
  MTF_RETURN_IF_ERROR(store->Restore(result.best_step).status());
  MTF_ASSIGN_OR_RETURN(const train::MetricValues best,
                       train::Evaluate(*session, held_out));
  std::filesystem::remove_all(folder);
  train::Say(absl::StrFormat("at the end    error %.4f", last.at("error")));
  train::Say(absl::StrFormat("after step %2d error %.4f", result.best_step,
                             best.at("error")));
  train::Say(best.at("error") == result.best_value &&
                     best.at("error") < last.at("error")
                 ? "The best was kept."
                 : "The best was lost.");
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  return mtf::train::RunMain(
      argc, argv, "Lesson 11: evaluate and keep the best.", &mtf::Main);
}
