// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_METRICS_H_
#define TRAIN_LOOP_METRICS_H_

#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mtf::train {

// The collectives of one kind over one set of mesh axes in a step, as counted
// by the communicator of a rank.
struct CollectiveMetrics {
  std::string kind;  // "all_reduce"
  std::string axes;  // "data" or "data+model"
  int64_t calls = 0;
  int64_t bytes = 0;  // on the wire, per rank
  friend bool operator==(const CollectiveMetrics&,
                         const CollectiveMetrics&) = default;
};

// The logged metrics of one training step.
struct StepMetrics {
  int64_t step = 0;
  double loss = 0;
  double tokens_per_s = 0;
  std::vector<CollectiveMetrics> collectives = {};
  std::map<std::string, double> summaries = {};  // Session::summaries
  // Of the peak of all devices, as a fraction; 0: not known, and not logged.
  double share_of_peak = 0;
  // The time for which the step waited for its feeds, which threads read ahead
  // (Training::reading). 0: not known, and not logged.
  double data_wait_s = 0;
  // Of the update, if the optimizer has a LoggedRate (logged_rate.h).
  std::optional<double> learning_rate = std::nullopt;

  int64_t TotalCalls() const;
  int64_t TotalBytes() const;
  friend bool operator==(const StepMetrics&, const StepMetrics&) = default;
};

// The logged metrics of an evaluation after `step` steps.
struct EvaluationMetrics {
  int64_t step = 0;
  std::map<std::string, double> values = {};
  friend bool operator==(const EvaluationMetrics&,
                         const EvaluationMetrics&) = default;
};

// Writes JSON lines, one object for each step:
//
//   {"collectives":{"all_reduce":{"data":{"bytes":1024,"calls":1}}},
//    "loss":5.5,"step":0,"tokens_per_s":1e4}             [on one line]
//
// With scalar summaries also "summaries":{"gradient_norm":0.25}; a NaN is null.
// With a LoggedRate also "learning_rate":1e-3. From Train also "data_wait_s".
// An evaluation after `step` steps is a line of its own:
//
//   {"evaluation":{"loss":5.25,"perplexity":190.5},"step":100}
class MetricsWriter {
 public:
  // Truncates the file. kPermissionDenied if it cannot be written.
  static absl::StatusOr<std::unique_ptr<MetricsWriter>> Create(
      const std::string& path);

  // For a run that goes on before step number `step`: keeps the lines of an
  // existing file up to there, without those that were logged later or are not
  // complete. Errors are those of Create.
  static absl::StatusOr<std::unique_ptr<MetricsWriter>> Resume(
      const std::string& path, int64_t step);

  // Appends and flushes a line, so that an interrupted run leaves complete
  // lines. kDataLoss if the write fails.
  absl::Status Write(const StepMetrics& metrics);
  absl::Status WriteEvaluation(const EvaluationMetrics& evaluation);

 private:
  explicit MetricsWriter(std::string path) : path_(std::move(path)) {}
  absl::Status WriteLine(const std::string& line, int64_t step);
  std::string path_;
  std::ofstream file_;
};

// Reads the steps, or the evaluations, of a file written by MetricsWriter.
// kNotFound if it cannot be read; kInvalidArgument, with path and line, for a
// malformed line.
absl::StatusOr<std::vector<StepMetrics>> ReadMetrics(const std::string& path);
absl::StatusOr<std::vector<EvaluationMetrics>> ReadEvaluations(
    const std::string& path);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_METRICS_H_
