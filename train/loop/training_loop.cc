// SPDX-License-Identifier: Apache-2.0
#include "train/loop/training_loop.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "train/loop/logged_rate.h"
#include "train/loop/variable_histograms.h"

namespace mtf::train {
namespace {

double SecondsFrom(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

double MedianOf(std::vector<double> values) {
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

}  // namespace

TrainingLoop::TrainingLoop(Session& session, const Training& training)
    : session_(session),
      training_(training),
      state_({.deviations = training.guard.spike_deviations,
              .window = static_cast<size_t>(training.guard.spike_window)}),
      feeds_(training, session.host_trace()) {
  state_.batch = session.step();
  state_.SetSteps(training.steps, session.step());
}

absl::StatusOr<TrainingResult> TrainingLoop::Run() {
  if (training_.histograms.every > 0) {
    MTF_ASSIGN_OR_RETURN(
        histogram_ids_,
        ParametersThatMatch(session_.graph(), training_.histograms.parameters));
  }
  if (training_.saving.store != nullptr) {
    // From here on, so that a signal in a long restore is not lost.
    signals_ = std::make_unique<StopSignals>();
    MTF_RETURN_IF_ERROR(ResumeFromStore());
    // A run that stopped early has ended.
    const int64_t patience = training_.evaluate.patience;
    stopped_early_ = patience > 0 && state_.not_better >= patience;
  }
  MTF_ASSIGN_OR_RETURN(log_,
                       TrainingLog::Open(session_, {.json = training_.log_json,
                                                    .events = training_.events,
                                                    .steps = training_.steps}));
  if (saved_step_ >= 0) {
    log_->Say(absl::StrCat("resumed after step ", saved_step_, " from ",
                           training_.saving.store->Place()));
  } else if (training_.guard.non_finite == Remedy::kRollBack ||
             training_.guard.spike == Remedy::kRollBack) {
    // There must be a state to return to.
    MTF_RETURN_IF_ERROR(SaveNow(/*is_best=*/false));
  }
  absl::Status status = Steps();
  status.Update(log_->Finish());
  MTF_RETURN_IF_ERROR(status);
  if (training_.saving.store != nullptr) {
    if (saved_step_ != session_.step()) MTF_RETURN_IF_ERROR(SaveNow(false));
    MTF_RETURN_IF_ERROR(training_.saving.store->Wait());
  }
  const TrainingResult result = Result();
  for (const TrainingCallbacks& callbacks : training_.callbacks) {
    if (callbacks.on_end == nullptr) continue;
    MTF_RETURN_IF_ERROR(callbacks.on_end(result));
  }
  return result;
}

absl::Status TrainingLoop::Steps() {
  begin_ = Clock::now();
  second_begin_ = begin_;
  while (session_.step() < training_.steps && !stopped_early_) {
    MTF_ASSIGN_OR_RETURN(const StepOutcome outcome, RunStep());
    MTF_ASSIGN_OR_RETURN(const bool taken, TakesStep(outcome));
    if (taken) MTF_RETURN_IF_ERROR(Count(outcome));
    MTF_RETURN_IF_ERROR(AfterStep(outcome));
  }
  return absl::OkStatus();
}

absl::StatusOr<TrainingLoop::StepOutcome> TrainingLoop::RunStep() {
  const Clock::time_point begin = Clock::now();
  StepOutcome outcome;
  outcome.batch = state_.batch;
  StepMetrics& metrics = outcome.metrics;
  metrics.step = session_.step();
  RunRequest request = {.fetches = {training_.loss},
                        .updates = {training_.update}};
  MTF_ASSIGN_OR_RETURN(
      request.feeds,
      feeds_.Read(state_.batch, training_.steps - session_.step()));
  metrics.data_wait_s = SecondsFrom(begin);
  session_.ResetCounts();
  MTF_ASSIGN_OR_RETURN(const std::vector<HostTensor> fetched,
                       session_.Run(request));
  MTF_ASSIGN_OR_RETURN(metrics.loss, fetched[0].At(0));
  // Exclude the first step, which also lowers and prepares the program.
  if (steps_done_ == 1) step_s_.clear();
  step_s_.push_back(SecondsFrom(begin));
  const double rate = 1 / step_s_.back();
  metrics.tokens_per_s = static_cast<double>(training_.tokens_per_step) * rate;
  if (training_.peak_flops > 0) {
    metrics.share_of_peak =
        training_.flops_per_step * rate / training_.peak_flops;
  }
  metrics.collectives = MetricsOf(session_.mesh(), session_.counts());
  metrics.summaries = session_.summaries();
  metrics.learning_rate = TakeLearningRate(metrics.summaries);
  if (steps_done_ == 0) second_begin_ = Clock::now();
  tokens_per_s_ = steps_done_ == 0
                      ? metrics.tokens_per_s
                      : static_cast<double>(steps_done_) *
                            static_cast<double>(training_.tokens_per_step) /
                            SecondsFrom(second_begin_);
  ++steps_done_;
  outcome.is_spike = state_.watch.IsSpike(metrics.loss);
  return outcome;
}

// Takes a step into the result, the logs and the state.
absl::Status TrainingLoop::Count(const StepOutcome& outcome) {
  const StepMetrics& metrics = outcome.metrics;
  state_.loss = metrics.loss;
  if (metrics.step >= state_.FirstLateStep()) {
    state_.late_losses += metrics.loss;
    ++state_.late_steps;
  }
  state_.watch.Add(metrics.loss);
  state_.NextBatch();
  skips_in_a_row_ = 0;
  MTF_RETURN_IF_ERROR(log_->Step(metrics, tokens_per_s_, SecondsFrom(begin_)));
  for (const TrainingCallbacks& callbacks : training_.callbacks) {
    if (callbacks.on_step == nullptr) continue;
    MTF_RETURN_IF_ERROR(callbacks.on_step(metrics));
  }
  return absl::OkStatus();
}

bool TrainingLoop::IsDue(int64_t every, bool at_the_end) const {
  const int64_t step = session_.step();
  // No step since then, as after a return to a saved state.
  if (step == saved_step_) return false;
  if (at_the_end && step == training_.steps) return true;
  return every > 0 && step % every == 0;
}

absl::Status TrainingLoop::AfterStep(const StepOutcome& outcome) {
  is_best_ = false;
  const int64_t every = training_.evaluate.every;
  const bool evaluates = every > 0 && IsDue(every, /*at_the_end=*/true);
  const bool saves = training_.saving.store != nullptr &&
                     IsDue(training_.saving.every, /*at_the_end=*/true);
  if (evaluates || saves) {
    MTF_ASSIGN_OR_RETURN(const bool can_save, CanSaveState(outcome));
    if (!can_save) return absl::OkStatus();
  }
  if (evaluates) MTF_RETURN_IF_ERROR(EvaluateNow());
  if (IsDue(training_.sample_every, /*at_the_end=*/false)) {
    MTF_RETURN_IF_ERROR(SampleNow());
  }
  if (IsDue(training_.histograms.every, /*at_the_end=*/false)) {
    MTF_RETURN_IF_ERROR(LogHistograms(outcome.metrics.step));
  }
  const Saving& saving = training_.saving;
  if (saving.store == nullptr) return absl::OkStatus();
  if (is_best_ || saves) MTF_RETURN_IF_ERROR(SaveNow(is_best_));
  return StopIfSignalled();
}

absl::Status TrainingLoop::EvaluateNow() {
  const EvaluationPlan& plan = training_.evaluate;
  MTF_ASSIGN_OR_RETURN(const MetricValues values,
                       Evaluate(session_, plan.evaluation));
  const auto found = values.find(plan.best);
  const double value = found->second;
  const double gain = plan.higher_is_better ? value - state_.best_value
                                            : state_.best_value - value;
  is_best_ =
      std::isfinite(value) && (state_.best_step < 0 || gain > plan.least_gain);
  if (is_best_) {
    state_.best_value = value;
    state_.best_step = session_.step();
    state_.not_better = 0;
  } else {
    ++state_.not_better;
  }
  MTF_RETURN_IF_ERROR(log_->Evaluated(session_.step(), values, is_best_));
  for (const TrainingCallbacks& callbacks : training_.callbacks) {
    if (callbacks.on_evaluation == nullptr) continue;
    MTF_RETURN_IF_ERROR(callbacks.on_evaluation(session_.step(), values));
  }
  if (plan.patience > 0 && state_.not_better >= plan.patience) {
    stopped_early_ = true;
    log_->Say(absl::StrCat("stopped early after step ", session_.step(), ": \"",
                           plan.best, "\" was not better in ",
                           Plural(state_.not_better, "evaluation")));
  }
  return absl::OkStatus();
}

absl::Status TrainingLoop::SampleNow() {
  MTF_ASSIGN_OR_RETURN(const std::string text, training_.sample());
  return log_->Sampled(session_.step(), text);
}

absl::Status TrainingLoop::LogHistograms(int64_t step) {
  MTF_ASSIGN_OR_RETURN(const std::vector<VariableHistogram> histograms,
                       HistogramsOfVariables(session_, histogram_ids_));
  return log_->Histograms(step, histograms);
}

absl::Status TrainingLoop::StopIfSignalled() {
  MTF_ASSIGN_OR_RETURN(const int signal, signals_->Agree(session_));
  if (signal == 0) return absl::OkStatus();
  if (saved_step_ != session_.step()) MTF_RETURN_IF_ERROR(SaveNow(false));
  MTF_RETURN_IF_ERROR(training_.saving.store->Wait());
  return StoppedBySignal(signal, session_.step(),
                         training_.saving.store->Place());
}

TrainingResult TrainingLoop::Result() const {
  return {.loss = state_.loss,
          .smooth_loss = state_.SmoothLoss(session_.step()),
          .tokens_per_s = tokens_per_s_,
          .median_step_s = MedianOf(step_s_),
          .best_value = state_.best_value,
          .best_step = state_.best_step,
          .stopped_early = stopped_early_};
}

}  // namespace mtf::train
