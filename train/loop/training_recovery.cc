// SPDX-License-Identifier: Apache-2.0
//
// The part of TrainingLoop that saves and restores, and that deals with losses
// that are not finite or far too high.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "train/loop/find_non_finite.h"
#include "train/loop/training_loop.h"

namespace mtf::train {
namespace {

// The saved step from which a run goes on, or -1 for the beginning.
absl::StatusOr<int64_t> StepToResume(const Saving& saving,
                                     const std::vector<int64_t>& steps) {
  const std::string place = saving.store->Place();
  switch (saving.resume) {
    case Resume::kAuto:
      return steps.empty() ? -1 : steps.back();
    case Resume::kNever:
      if (steps.empty()) return -1;
      return absl::AlreadyExistsError(absl::StrCat(
          Quoted(place), " already has the state of step ", steps.back(),
          DetailLine("help",
                     "resume from it (--resume=auto), or choose another "
                     "--checkpoint_dir")));
    case Resume::kMust:
      if (!steps.empty()) return steps.back();
      return absl::NotFoundError(absl::StrCat(
          "nothing to resume from in ", Quoted(place),
          DetailLine("help", "--resume=auto starts from the beginning")));
    case Resume::kStep:
      if (std::find(steps.begin(), steps.end(), saving.step) != steps.end()) {
        return saving.step;
      }
      return absl::NotFoundError(
          absl::StrCat(Quoted(place), " has no state of step ", saving.step,
                       DetailLine("steps", absl::StrJoin(steps, ", "))));
  }
  return absl::InternalError("unknown kind of resumption");
}

// Advice against losses that diverge or are not finite.
std::string HelpLine() {
  return DetailLine("help",
                    "a smaller --learning_rate, a longer warm-up or clipped "
                    "gradients tend to help");
}

std::string LossText(double loss, int64_t step) {
  return absl::StrCat("the loss is ", loss, " after step ", step);
}

// The error of a state that is not saved because of `what` is in it.
absl::Status NonFiniteState(int64_t step, const std::string& what,
                            int64_t saved_step) {
  return absl::OutOfRangeError(absl::StrCat(
      "the variables after ", Plural(step, "step"),
      " are not finite and were not saved", DetailLine("first", what),
      saved_step < 0
          ? ""
          : DetailLine("saved", absl::StrCat("the state of step ", saved_step)),
      HelpLine()));
}

}  // namespace

absl::Status TrainingLoop::ResumeFromStore() {
  const Saving& saving = training_.saving;
  MTF_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, saving.store->Steps());
  MTF_ASSIGN_OR_RETURN(const int64_t step, StepToResume(saving, steps));
  if (step < 0) return absl::OkStatus();
  if (step > training_.steps) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the state to resume from is of step ", step, ", but the run ends at ",
        training_.steps, DetailLine("folder", saving.store->Place()),
        DetailLine("help",
                   "raise --steps, or resume from an earlier state "
                   "(--resume=STEP)")));
  }
  return RestoreStep(step);
}

absl::Status TrainingLoop::RestoreStep(int64_t step) {
  MTF_ASSIGN_OR_RETURN(const TrainingStore::Extra extra,
                       training_.saving.store->Restore(step));
  MTF_RETURN_IF_ERROR(state_.SetFrom(extra, session_.step()));
  state_.SetSteps(training_.steps, session_.step());
  saved_step_ = session_.step();
  finite_step_ = -1;
  return absl::OkStatus();
}

// An update may make variables infinite or NaN after its loss was finite. Such
// a state must not be saved: a later run would begin with it.
absl::Status TrainingLoop::CheckStateIsFinite() {
  const int64_t step = session_.step();
  if (finite_step_ == step) return absl::OkStatus();
  MTF_ASSIGN_OR_RETURN(const std::string found,
                       FindNonFiniteVariable(session_));
  if (!found.empty()) return NonFiniteState(step, found, saved_step_);
  finite_step_ = step;
  return absl::OkStatus();
}

// Whether the state is finite. Otherwise it is an error, or with
// Remedy::kRollBack the session is back in an earlier state.
absl::StatusOr<bool> TrainingLoop::CanSaveState(const StepOutcome& outcome) {
  const absl::Status finite = CheckStateIsFinite();
  if (finite.ok()) return true;
  if (!absl::IsOutOfRange(finite) ||
      training_.guard.non_finite != Remedy::kRollBack) {
    return finite;
  }
  MTF_RETURN_IF_ERROR(
      RollBack(outcome, absl::StrCat("the variables after step ",
                                     outcome.metrics.step, " are not finite")));
  return false;
}

absl::Status TrainingLoop::SaveNow(bool is_best) {
  MTF_RETURN_IF_ERROR(CheckStateIsFinite());
  TrainingStore::Extra extra = training_.saving.extra;
  state_.AddTo(extra);
  MTF_RETURN_IF_ERROR(training_.saving.store->Save(
      extra,
      is_best ? std::optional<double>(state_.best_value) : std::nullopt));
  saved_step_ = session_.step();
  for (const TrainingCallbacks& callbacks : training_.callbacks) {
    if (callbacks.on_save == nullptr) continue;
    MTF_RETURN_IF_ERROR(callbacks.on_save(session_.step()));
  }
  return absl::OkStatus();
}

// Whether the step counts. Otherwise it is left out, or the session is back in
// an earlier state.
absl::StatusOr<bool> TrainingLoop::TakesStep(const StepOutcome& outcome) {
  const double loss = outcome.metrics.loss;
  const bool finite = std::isfinite(loss);
  if (finite && !outcome.is_spike) return true;
  const Remedy remedy =
      finite ? training_.guard.spike : training_.guard.non_finite;
  if (finite) {
    log_->Say(absl::StrFormat(
        "%s: a spike over the limit of %.4g (%g standard deviations)",
        LossText(loss, outcome.metrics.step), state_.watch.Limit(),
        training_.guard.spike_deviations));
  }
  switch (remedy) {
    case Remedy::kReport:
      return true;
    case Remedy::kStop:
      break;
    case Remedy::kSkip:
      return SkipStep(outcome);
    case Remedy::kRollBack:
      MTF_RETURN_IF_ERROR(
          RollBack(outcome, LossText(loss, outcome.metrics.step)));
      return false;
  }
  return Stopped(outcome, LossText(loss, outcome.metrics.step));
}

// The optimizer has omitted the update, and the loss stays out of the logs.
absl::StatusOr<bool> TrainingLoop::SkipStep(const StepOutcome& outcome) {
  const std::string loss = LossText(outcome.metrics.loss, outcome.metrics.step);
  if (++skips_in_a_row_ > LossGuard::kMostInARow) return Stopped(outcome, loss);
  MTF_ASSIGN_OR_RETURN(const std::string found,
                       FindNonFiniteVariable(session_));
  if (!found.empty()) {
    return Stopped(
        outcome,
        absl::StrCat(loss, ", and its batch cannot be skipped: ", found,
                     " after the update",
                     DetailLine("why",
                                "this or an earlier update was not "
                                "finite, and the optimizer does not "
                                "omit such updates (skip_non_finite)")));
  }
  log_->Say(absl::StrCat(loss, ": skipped batch ", outcome.batch));
  state_.left_out.insert(outcome.batch);
  state_.NextBatch();
  return false;
}

absl::Status TrainingLoop::RollBack(const StepOutcome& outcome,
                                    const std::string& reason) {
  const int64_t step = outcome.metrics.step;
  TrainingStore& store = *training_.saving.store;
  MTF_RETURN_IF_ERROR(store.Wait());
  MTF_ASSIGN_OR_RETURN(std::vector<int64_t> steps, store.Steps());
  // A loss that is not finite before any update is the fault of the state.
  const bool state_is_bad =
      !std::isfinite(outcome.metrics.loss) && returns_.contains(step);
  while (!steps.empty() &&
         (steps.back() > step || (state_is_bad && steps.back() == step))) {
    steps.pop_back();
  }
  if (steps.empty() || ++returns_[steps.back()] > LossGuard::kMostInARow) {
    return Stopped(outcome, reason);
  }
  std::set<int64_t> left_out = state_.left_out;
  left_out.insert(outcome.batch);
  log_->Say(absl::StrCat(reason, ": rolled back to step ", steps.back(),
                         ", skipping batch ", outcome.batch));
  MTF_RETURN_IF_ERROR(RestoreStep(steps.back()));
  state_.LeaveOut(left_out);
  return log_->GoBackTo(session_, session_.step());
}

// The error that ends the training, with what was found about its cause.
absl::Status TrainingLoop::Stopped(const StepOutcome& outcome,
                                   const std::string& reason) {
  std::string details;
  if (!std::isfinite(outcome.metrics.loss)) {
    MTF_ASSIGN_OR_RETURN(details, Diagnose(outcome));
  }
  return absl::OutOfRangeError(absl::StrCat(
      reason, details, DetailLine("batch", absl::StrCat(outcome.batch)),
      HelpLine()));
}

// Finds the first tensor that is not finite. The step has updated the
// variables, so the state before it is computed again from a saved one.
absl::StatusOr<std::string> TrainingLoop::Diagnose(const StepOutcome& outcome) {
  feeds_.Stop();  // from here on this thread reads
  const int64_t step = outcome.metrics.step;
  int64_t from = -1;
  if (training_.saving.store != nullptr) {
    MTF_RETURN_IF_ERROR(training_.saving.store->Wait());
    MTF_ASSIGN_OR_RETURN(const std::vector<int64_t> steps,
                         training_.saving.store->Steps());
    for (const int64_t saved : steps) {
      if (saved <= step) from = saved;
    }
  }
  if (from >= 0) {
    const std::set<int64_t> left_out = state_.left_out;
    MTF_RETURN_IF_ERROR(RestoreStep(from));
    state_.LeaveOut(left_out);
    MTF_RETURN_IF_ERROR(Replay(step));
  }
  MTF_ASSIGN_OR_RETURN(const Feeds feeds, training_.feeds(outcome.batch));
  MTF_ASSIGN_OR_RETURN(const std::vector<NonFinite> found,
                       FindNonFinite(session_, training_.loss, feeds));
  std::string text;
  for (const NonFinite& tensor : found) {
    absl::StrAppend(&text, DetailLine("first", tensor.ToString()));
  }
  if (found.empty()) {
    text = DetailLine(
        "again", from >= 0 ? absl::StrCat("the steps from ", from,
                                          " on give a finite loss when they "
                                          "run again: suspect the hardware")
                           : "with the present variables the loss is finite");
  } else if (from < 0) {
    absl::StrAppend(&text, DetailLine("when", "after the update of the step"));
  }
  return text;
}

// Runs the steps from the present one up to `step`, without it.
absl::Status TrainingLoop::Replay(int64_t step) {
  while (session_.step() < step) {
    RunRequest request = {.fetches = {training_.loss},
                          .updates = {training_.update}};
    MTF_ASSIGN_OR_RETURN(request.feeds, training_.feeds(state_.batch));
    MTF_RETURN_IF_ERROR(session_.Run(request).status());
    state_.NextBatch();
  }
  return absl::OkStatus();
}

}  // namespace mtf::train
