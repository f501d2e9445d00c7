// SPDX-License-Identifier: Apache-2.0
//
// The loop of Train() (trainer.h). Not for users.
#ifndef TRAIN_LOOP_TRAINING_LOOP_H_
#define TRAIN_LOOP_TRAINING_LOOP_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train/loop/batch_feeds.h"
#include "train/loop/loop_state.h"
#include "train/loop/stop_signals.h"
#include "train/loop/trainer.h"
#include "train/loop/training_log.h"
#include "train/session/session.h"

namespace mtf::train {

// Every decision depends only on the arguments and on values that are the same
// in all processes: fetched losses and metrics, and agreed signals. So all
// processes make the same calls.
class TrainingLoop {
 public:
  TrainingLoop(Session& session, const Training& training);

  // Call once.
  absl::StatusOr<TrainingResult> Run();

 private:
  using Clock = std::chrono::steady_clock;
  using Feeds = std::map<std::string, HostTensor>;

  // What a step brought.
  struct StepOutcome {
    StepMetrics metrics;
    int64_t batch = 0;
    bool is_spike = false;
  };

  // training_loop.cc: the steps and what is due after them.
  absl::Status Steps();
  absl::StatusOr<StepOutcome> RunStep();
  absl::Status Count(const StepOutcome& outcome);
  absl::Status AfterStep(const StepOutcome& outcome);
  absl::Status EvaluateNow();
  absl::Status SampleNow();
  absl::Status LogHistograms(int64_t step);
  absl::Status StopIfSignalled();
  bool IsDue(int64_t every, bool at_the_end) const;
  TrainingResult Result() const;

  // training_recovery.cc: saved states, and losses that are too high.
  absl::Status ResumeFromStore();
  absl::Status SaveNow(bool is_best);
  absl::Status RestoreStep(int64_t step);
  absl::StatusOr<bool> TakesStep(const StepOutcome& outcome);
  absl::StatusOr<bool> SkipStep(const StepOutcome& outcome);
  absl::Status RollBack(const StepOutcome& outcome, const std::string& reason);
  absl::Status Stopped(const StepOutcome& outcome, const std::string& reason);
  absl::StatusOr<bool> CanSaveState(const StepOutcome& outcome);
  absl::Status CheckStateIsFinite();
  absl::StatusOr<std::string> Diagnose(const StepOutcome& outcome);
  absl::Status Replay(int64_t step);

  Session& session_;
  const Training& training_;
  LoopState state_;
  BatchFeeds feeds_;
  std::unique_ptr<TrainingLog> log_;
  std::unique_ptr<StopSignals> signals_;  // null: none are awaited
  std::vector<int> histogram_ids_;        // of the parameters
  bool stopped_early_ = false;
  bool is_best_ = false;  // the evaluation after the last step
  int64_t saved_step_ = -1;
  int64_t finite_step_ = -1;  // whose variables are known to be finite
  int64_t skips_in_a_row_ = 0;
  std::map<int64_t, int64_t> returns_;  // to a saved state, by its step
  Clock::time_point begin_;
  // Of this call: its first step is left out, because it prepares the program.
  std::vector<double> step_s_;
  int64_t steps_done_ = 0;
  Clock::time_point second_begin_;
  double tokens_per_s_ = 0;
};

}  // namespace mtf::train

#endif  // TRAIN_LOOP_TRAINING_LOOP_H_
