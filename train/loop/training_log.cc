// SPDX-License-Identifier: Apache-2.0
#include "train/loop/training_log.h"

#include <unistd.h>

#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/communicators/launcher.h"
#include "layouts/text_items.h"
#include "mtf/status.h"

namespace mtf::train {
namespace {

constexpr double kSecondsBetweenFlushes = 5;

// The memory of this process that is resident, or 0 if the system does not say.
double ResidentBytes() {
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return static_cast<double>(resident) *
         static_cast<double>(sysconf(_SC_PAGESIZE));
}

// The number in the event file of what follows `steps` steps: that of the last
// loss before it. A run that resumes after these steps begins with the next
// number, from which on TensorBoard drops what earlier files have.
int64_t LastStepOf(int64_t steps) { return steps - 1; }

}  // namespace

absl::StatusOr<std::unique_ptr<TrainingLog>> TrainingLog::Open(
    Session& session, const Options& options) {
  std::function<int()> columns;
  if (OutputIsTerminal(DetectLauncher().size > 1)) {
    columns = [] { return OutputColumns(/*otherwise=*/80); };
  }
  std::unique_ptr<TrainingLog> log(new TrainingLog(
      options,
      std::make_unique<Progress>(std::cout, columns, !session.is_primary(),
                                 options.steps, session.step())));
  log->primary_ = session.is_primary();
  // All ranks must agree, even if only the primary one opens files.
  MTF_RETURN_IF_ERROR(session.Agree(log->OpenFiles(session.step())));
  return log;
}

absl::Status TrainingLog::OpenFiles(int64_t step) {
  if (!primary_) return absl::OkStatus();
  if (!options_.json.empty()) {
    json_.reset();
    MTF_ASSIGN_OR_RETURN(
        json_, step == 0 ? MetricsWriter::Create(options_.json)
                         : MetricsWriter::Resume(options_.json, step));
  }
  if (!options_.events.empty()) {
    if (events_ == nullptr) {
      MTF_ASSIGN_OR_RETURN(events_, EventWriter::Create(options_.events));
      MTF_RETURN_IF_ERROR(events_->AddCharts(
          "training", {{"loss", {"^loss$", "^evaluation/loss$"}},
                       {"learning rate", {"^learning_rate$"}},
                       {"speed", {"^speed/tokens_per_s$"}}}));
    }
    MTF_RETURN_IF_ERROR(events_->AddStart(step));
  }
  return absl::OkStatus();
}

absl::Status TrainingLog::Step(const StepMetrics& metrics, double tokens_per_s,
                               double seconds) {
  progress_->Show(metrics.step, metrics.loss, tokens_per_s, seconds,
                  metrics.share_of_peak);
  if (json_ != nullptr) MTF_RETURN_IF_ERROR(json_->Write(metrics));
  if (events_ == nullptr) return absl::OkStatus();
  std::map<std::string, double> scalars = metrics.summaries;
  scalars["loss"] = metrics.loss;
  scalars["speed/tokens_per_s"] = metrics.tokens_per_s;
  scalars["speed/data_wait_s"] = metrics.data_wait_s;
  if (metrics.learning_rate.has_value()) {
    scalars["learning_rate"] = *metrics.learning_rate;
  }
  if (metrics.share_of_peak > 0) {
    scalars["speed/share_of_peak"] = metrics.share_of_peak;
  }
  const bool flush = seconds >= flushed_at_ + kSecondsBetweenFlushes;
  if (flush) scalars["memory/resident_bytes"] = ResidentBytes();
  MTF_RETURN_IF_ERROR(events_->AddScalars(metrics.step, scalars));
  if (!flush) return absl::OkStatus();
  flushed_at_ = seconds;
  return events_->Flush();
}

absl::Status TrainingLog::Evaluated(int64_t step, const MetricValues& values,
                                    bool best) {
  Say(absl::StrCat("step ", step, "  evaluation: ", MetricsText(values),
                   best ? "  (best)" : ""));
  if (json_ != nullptr) {
    MTF_RETURN_IF_ERROR(json_->WriteEvaluation({step, values}));
  }
  if (events_ == nullptr) return absl::OkStatus();
  std::map<std::string, double> scalars;
  for (const auto& [name, value] : values) {
    scalars[absl::StrCat("evaluation/", name)] = value;
  }
  MTF_RETURN_IF_ERROR(events_->AddScalars(LastStepOf(step), scalars));
  return events_->Flush();
}

absl::Status TrainingLog::Sampled(int64_t step, const std::string& text) {
  Say(absl::StrCat("step ", step, "  sample:\n", text, "\n"));
  if (events_ == nullptr) return absl::OkStatus();
  return events_->AddText(LastStepOf(step), "sample", text);
}

absl::Status TrainingLog::Histograms(
    int64_t step, const std::vector<VariableHistogram>& histograms) {
  std::map<std::string, double> not_finite;
  for (const VariableHistogram& variable : histograms) {
    const int64_t left_out = variable.infinite + variable.nan;
    if (left_out > 0) {
      not_finite[absl::StrCat("not_finite/", variable.name)] =
          static_cast<double>(left_out);
      if (not_finite_.insert(variable.name).second) {
        Say(absl::StrCat("note: the histogram of ", Quoted(variable.name),
                         " after step ", step, " leaves out ", variable.nan,
                         " NaN and ", variable.infinite, " infinite values"));
      }
    }
    if (events_ == nullptr || variable.histogram.count == 0) continue;
    MTF_RETURN_IF_ERROR(
        events_->AddHistogram(step, variable.name, variable.histogram));
  }
  if (events_ == nullptr) return absl::OkStatus();
  if (!not_finite.empty()) {
    MTF_RETURN_IF_ERROR(events_->AddScalars(step, not_finite));
  }
  return events_->Flush();
}

void TrainingLog::Say(absl::string_view line) {
  progress_->Finish();
  if (primary_) std::cout << line << std::endl;
}

absl::Status TrainingLog::GoBackTo(Session& session, int64_t step) {
  return session.Agree(OpenFiles(step));
}

absl::Status TrainingLog::Finish() {
  progress_->Finish();
  return events_ != nullptr ? events_->Flush() : absl::OkStatus();
}

}  // namespace mtf::train
