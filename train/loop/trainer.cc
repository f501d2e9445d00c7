// SPDX-License-Identifier: Apache-2.0
#include "train/loop/trainer.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
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
    return BadTraining("a loss that is not finite cannot only be reported",
                       "stop, skip or roll back");
  }
  if (guard.spike == Remedy::kSkip) {
    return BadTraining(
        "the update of a step whose loss is a spike cannot be left out: it is "
        "done when the loss is known",
        "report, stop or roll back");
  }
  if (guard.spike_window < static_cast<int64_t>(LossWatch::kLeastLosses)) {
    return BadTraining(
        absl::StrCat("the window of losses is ", guard.spike_window,
                     ", fewer than ", LossWatch::kLeastLosses),
        "a window of 100 losses is usual");
  }
  const bool rolls_back =
      guard.non_finite == Remedy::kRollBack || guard.spike == Remedy::kRollBack;
  if (rolls_back && training.saving.store == nullptr) {
    return BadTraining("to roll back needs saved states",
                       "give a store, or --checkpoint_dir");
  }
  return absl::OkStatus();
}

absl::Status CheckTraining(const Training& training) {
  MTF_RETURN_IF_ERROR(CheckGuard(training));
  const EvaluationPlan& plan = training.evaluate;
  const std::vector<Metric>& metrics = plan.evaluation.metrics;
  if (plan.every > 0 &&
      std::none_of(metrics.begin(), metrics.end(), [&](const Metric& metric) {
        return metric.name == plan.best;
      })) {
    return BadTraining(
        absl::StrCat("the best evaluation is chosen by ", Quoted(plan.best),
                     ", which is no metric of it"),
        "name one of the metrics");
  }
  if (plan.every == 0 && plan.patience > 0) {
    return BadTraining("to stop early needs evaluations",
                       "say how often to evaluate");
  }
  if (training.sample_every > 0 && training.sample == nullptr) {
    return BadTraining("samples are due, but nothing makes them",
                       "give a function that returns a sample");
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
