// SPDX-License-Identifier: Apache-2.0
#include "train/loop/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/communicators/launcher.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "train/loop/metrics.h"
#include "train/loop/progress.h"

namespace mtf::train {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<CollectiveMetrics> MetricsOf(const Mesh& mesh,
                                         const CollectiveCounts& counts) {
  std::vector<CollectiveMetrics> metrics;
  for (const auto& [key, count] : counts) {
    metrics.push_back({std::string(CollectiveName(key.first)),
                       mesh.AxisNames(ListOf(key.second)), count.calls,
                       count.bytes});
  }
  return metrics;
}

absl::Status NotFinite(double loss, int64_t step) {
  return absl::OutOfRangeError(
      absl::StrCat("the loss is ", loss, " after step ", step,
                   DetailLine("help",
                              "a smaller --learning_rate, a longer warm-up or "
                              "clipped gradients tend to help")));
}

absl::StatusOr<std::unique_ptr<MetricsWriter>> OpenLog(
    Session& session, const std::string& path) {
  absl::StatusOr<std::unique_ptr<MetricsWriter>> log(nullptr);
  if (session.is_primary() && !path.empty()) log = MetricsWriter::Create(path);
  // All ranks must agree, even if only the primary one opens the file.
  MTF_RETURN_IF_ERROR(session.Agree(log.status()));
  return log;
}

}  // namespace

absl::StatusOr<TrainingResult> Train(Session& session,
                                     const Training& training) {
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<MetricsWriter> log,
                       OpenLog(session, training.log_json));
  std::function<int()> columns;
  if (OutputIsTerminal(DetectLauncher().size > 1)) {
    columns = [] { return OutputColumns(/*otherwise=*/80); };
  }
  Progress progress(std::cout, columns, !session.is_primary(), training.steps);
  TrainingResult result;
  std::vector<double> step_s;
  const int64_t smooth_from = training.steps - (training.steps + 9) / 10;
  const Clock::time_point begin = Clock::now();
  Clock::time_point second_begin = begin;
  for (int64_t i = 0; i < training.steps; ++i) {
    const Clock::time_point step_begin = Clock::now();
    StepMetrics metrics;
    metrics.step = session.step();
    RunRequest request = {.fetches = {training.loss},
                          .updates = {training.update}};
    MTF_ASSIGN_OR_RETURN(request.feeds, training.feeds(metrics.step));
    session.ResetCounts();
    absl::StatusOr<std::vector<HostTensor>> fetched = session.Run(request);
    if (!fetched.ok()) progress.Finish();
    MTF_RETURN_IF_ERROR(fetched.status());
    metrics.loss = *(*fetched)[0].At(0);
    // Exclude the first step, which also lowers and prepares the program.
    if (i == 1) step_s.clear();
    step_s.push_back(SecondsSince(step_begin));
    metrics.tokens_per_s = training.tokens_per_step / step_s.back();
    metrics.collectives = MetricsOf(session.mesh(), session.counts());
    metrics.summaries = session.summaries();
    if (!std::isfinite(metrics.loss)) {
      progress.Finish();
      return NotFinite(metrics.loss, metrics.step);
    }
    if (i == 0) second_begin = Clock::now();
    result.loss = metrics.loss;
    if (i >= smooth_from) {
      result.smooth_loss += metrics.loss / (training.steps - smooth_from);
    }
    result.tokens_per_s =
        i == 0 ? metrics.tokens_per_s
               : i * training.tokens_per_step / SecondsSince(second_begin);
    progress.Show(i, metrics.loss, result.tokens_per_s, SecondsSince(begin));
    if (log != nullptr) MTF_RETURN_IF_ERROR(log->Write(metrics));
  }
  progress.Finish();
  result.median_step_s = Median(std::move(step_s));
  return result;
}

std::function<absl::StatusOr<std::map<std::string, HostTensor>>(int64_t step)>
TextFeeds(const TextDataset& text, Tensor tokens, Tensor targets,
          uint32_t seed) {
  return
      [&text, tokens, targets, seed](
          int64_t step) -> absl::StatusOr<std::map<std::string, HostTensor>> {
        MTF_ASSIGN_OR_RETURN(TextDataset::Batch batch,
                             text.Draw(seed, static_cast<uint32_t>(step),
                                       tokens.shape()[0], tokens.shape()[1]));
        return std::map<std::string, HostTensor>{
            {tokens.graph().FeedName(tokens), std::move(batch.tokens)},
            {targets.graph().FeedName(targets), std::move(batch.targets)}};
      };
}

}  // namespace mtf::train
