// SPDX-License-Identifier: Apache-2.0
#include "train/loop/trainer.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "train/loop/training_loop.h"

namespace mtf::train {
namespace {

absl::Status BadTraining(absl::string_view what, absl::string_view help) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, DetailLine("help", help)));
}

absl::Status CheckGuard(const Training& training) {
  const LossGuard& guard = training.guard;
  if (guard.non_finite == Remedy::kReport) {
    return BadTraining(
        "reporting is not enough for a loss that is NaN or infinite, because "
        "the update with it destroys the parameters",
        "choose stop, skip or roll_back");
  }
  if (guard.spike == Remedy::kSkip) {
    return BadTraining(
        "the step of a spike cannot be skipped: the parameters have been "
        "updated when its loss is known",
        "choose report, stop or roll_back");
  }
  if (guard.spike_window < static_cast<int64_t>(LossWatch::kLeastLosses)) {
    return BadTraining(
        absl::StrCat("spike_window is ", guard.spike_window,
                     " losses, fewer than ", LossWatch::kLeastLosses),
        "100 losses are usual");
  }
  const bool rolls_back =
      guard.non_finite == Remedy::kRollBack || guard.spike == Remedy::kRollBack;
  if (rolls_back && training.saving.store == nullptr) {
    return BadTraining(
        "rolling back needs a saved state to return to, but nothing is saved",
        "set --checkpoint_dir, or Training::saving.store");
  }
  return absl::OkStatus();
}

absl::Status CheckReading(const Reading& reading) {
  if (reading.threads < 0 || reading.threads > Reading::kMostThreads) {
    return BadTraining(
        absl::StrCat("the data is to be read by ", reading.threads,
                     " threads, not by 0 to ", Reading::kMostThreads),
        "set --readers, or Training::reading.threads");
  }
  constexpr int64_t kMostAhead = 1 << 20;
  if (reading.ahead < 1 || reading.ahead > kMostAhead) {
    return BadTraining(
        absl::StrCat(reading.ahead, " batches are to be read ahead, not 1 to ",
                     kMostAhead),
        "set Training::reading.ahead");
  }
  return absl::OkStatus();
}

absl::Status CheckTraining(const Training& training) {
  MTF_RETURN_IF_ERROR(CheckGuard(training));
  MTF_RETURN_IF_ERROR(CheckReading(training.reading));
  if (training.histograms.every > 0 && training.events.empty()) {
    return BadTraining(
        absl::StrCat("histograms are due every ",
                     Plural(training.histograms.every, "step"),
                     ", but there is no event file to write them to"),
        "set --events, or Training::events");
  }
  const EvaluationPlan& plan = training.evaluate;
  const std::vector<Metric>& metrics = plan.evaluation.metrics;
  if (plan.every > 0 &&
      std::none_of(metrics.begin(), metrics.end(), [&](const Metric& metric) {
        return metric.name == plan.best;
      })) {
    return BadTraining(
        absl::StrCat("the best evaluation is chosen by ", Quoted(plan.best),
                     ", which is not one of its metrics"),
        absl::StrCat("choose one of the metrics by --best: ",
                     absl::StrJoin(metrics, ", ",
                                   [](std::string* out, const Metric& metric) {
                                     absl::StrAppend(out, metric.name);
                                   })));
  }
  if (plan.every == 0 && plan.patience > 0) {
    return BadTraining(
        absl::StrCat("the patience is ", Plural(plan.patience, "evaluation"),
                     ", but nothing is evaluated"),
        "set --eval_every, or EvaluationPlan::every");
  }
  if (plan.patience > 0 && plan.every >= training.steps) {
    return BadTraining(
        absl::StrCat("the patience is ", Plural(plan.patience, "evaluation"),
                     ", but the only evaluation of this run is at its end: it "
                     "has ",
                     Plural(training.steps, "step"),
                     ", with an evaluation "
                     "every ",
                     plan.every),
        absl::StrCat("evaluate more often than every ", training.steps,
                     " steps, or omit the patience"));
  }
  if (training.sample_every > 0 && training.sample == nullptr) {
    return BadTraining(
        absl::StrCat("a sample is due every ",
                     Plural(training.sample_every, "step"),
                     ", but there is no function that generates one"),
        "set Training::sample");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainingResult> Train(Session& session,
                                     const Training& training) {
  MTF_RETURN_IF_ERROR(CheckTraining(training));
  return TrainingLoop(session, training).Run();
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
