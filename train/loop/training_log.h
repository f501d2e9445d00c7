// SPDX-License-Identifier: Apache-2.0
//
// What a training loop shows and writes. For the loop; not for users.
#ifndef TRAIN_LOOP_TRAINING_LOG_H_
#define TRAIN_LOOP_TRAINING_LOG_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "train/loop/evaluation.h"
#include "train/loop/event_file.h"
#include "train/loop/metrics.h"
#include "train/loop/progress.h"
#include "train/loop/variable_histograms.h"
#include "train/session/session.h"

namespace mtf::train {

// The progress on standard output, the JSON lines and the event file of a run,
// all written by rank 0. Every process creates one.
class TrainingLog {
 public:
  struct Options {
    std::string json = "";    // a file; empty: none
    std::string events = "";  // a folder; empty: none
    int64_t steps = 0;        // of the run, for the progress
  };

  // Opens the files for a run that goes on at the step of `session`.
  static absl::StatusOr<std::unique_ptr<TrainingLog>> Open(
      Session& session, const Options& options);

  // After a step; `tokens_per_s` is the speed of the run, not of the step.
  absl::Status Step(const StepMetrics& metrics, double tokens_per_s,
                    double seconds);
  absl::Status Evaluated(int64_t step, const MetricValues& values, bool best);
  absl::Status Sampled(int64_t step, const std::string& text);
  // Values that are not finite are a note, once for each variable, and a scalar
  // "not_finite/<variable>".
  absl::Status Histograms(int64_t step,
                          const std::vector<VariableHistogram>& histograms);
  // A line for the user, between those of the progress.
  void Say(absl::string_view line);
  // Goes back to before `step`, whose later lines are removed.
  absl::Status GoBackTo(Session& session, int64_t step);
  // Ends the line of the progress and flushes the files.
  absl::Status Finish();

 private:
  TrainingLog(Options options, std::unique_ptr<Progress> progress)
      : options_(std::move(options)), progress_(std::move(progress)) {}
  absl::Status OpenFiles(int64_t step);

  Options options_;
  std::unique_ptr<Progress> progress_;
  bool primary_ = false;
  std::unique_ptr<MetricsWriter> json_;  // null: none, or not the primary
  std::unique_ptr<EventWriter> events_;  // likewise
  double flushed_at_ = 0;                // seconds
  std::set<std::string> not_finite_;     // variables of a note
};

}  // namespace mtf::train

#endif  // TRAIN_LOOP_TRAINING_LOG_H_
