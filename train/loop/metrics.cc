// SPDX-License-Identifier: Apache-2.0
#include "train/loop/metrics.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "nlohmann/json.hpp"

namespace mtf::train {
namespace {

using Json = nlohmann::json;

std::string ToLine(const StepMetrics& metrics) {
  Json collectives = Json::object();
  for (const CollectiveMetrics& entry : metrics.collectives) {
    collectives[entry.kind][entry.axes] = {{"calls", entry.calls},
                                           {"bytes", entry.bytes}};
  }
  Json line = {{"step", metrics.step},
               {"loss", metrics.loss},
               {"tokens_per_s", metrics.tokens_per_s},
               {"collectives", collectives}};
  if (!metrics.summaries.empty()) line["summaries"] = metrics.summaries;
  if (metrics.learning_rate.has_value()) {
    line["learning_rate"] = *metrics.learning_rate;
  }
  if (metrics.share_of_peak > 0) line["share_of_peak"] = metrics.share_of_peak;
  if (metrics.data_wait_s > 0) line["data_wait_s"] = metrics.data_wait_s;
  return line.dump();
}

// Reads the number at `key`; returns false if there is none, where the library
// would throw.
template <class T>
bool ReadNumber(const Json& object, const char* key, T* value) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return false;
  *value = found->get<T>();
  return true;
}

// Reads the numbers by name at `key`, of which there may be none.
bool ReadNumbers(const Json& object, const char* key,
                 std::map<std::string, double>* numbers) {
  const auto found = object.find(key);
  if (found == object.end()) return true;
  if (!found->is_object()) return false;
  for (const auto& [name, value] : found->items()) {
    if (!value.is_number() && !value.is_null()) return false;
    (*numbers)[name] = value.is_null() ? std::nan("") : value.get<double>();
  }
  return true;
}

bool IsEvaluation(const Json& object) {
  return object.is_object() && object.contains("evaluation");
}

bool FromJson(const Json& object, EvaluationMetrics* evaluation) {
  return ReadNumber(object, "step", &evaluation->step) &&
         ReadNumbers(object, "evaluation", &evaluation->values);
}

bool FromJson(const Json& object, StepMetrics* metrics) {
  if (!object.is_object()) return false;
  if (!ReadNumber(object, "step", &metrics->step) ||
      !ReadNumber(object, "loss", &metrics->loss) ||
      !ReadNumber(object, "tokens_per_s", &metrics->tokens_per_s)) {
    return false;
  }
  const auto collectives = object.find("collectives");
  if (collectives == object.end() || !collectives->is_object()) return false;
  for (const auto& [kind, by_axes] : collectives->items()) {
    if (!by_axes.is_object()) return false;
    for (const auto& [axes, count] : by_axes.items()) {
      CollectiveMetrics entry = {kind, axes};
      if (!count.is_object() || !ReadNumber(count, "calls", &entry.calls) ||
          !ReadNumber(count, "bytes", &entry.bytes)) {
        return false;
      }
      metrics->collectives.push_back(std::move(entry));
    }
  }
  (void)ReadNumber(object, "share_of_peak", &metrics->share_of_peak);
  (void)ReadNumber(object, "data_wait_s", &metrics->data_wait_s);
  double rate = 0;
  if (ReadNumber(object, "learning_rate", &rate)) metrics->learning_rate = rate;
  return ReadNumbers(object, "summaries", &metrics->summaries);
}

// Reads the lines that are evaluations, or those that are not.
template <class Metrics>
absl::StatusOr<std::vector<Metrics>> ReadLog(const std::string& path,
                                             bool evaluations) {
  std::ifstream file(path);
  if (!file) {
    return absl::NotFoundError(
        absl::StrCat("cannot read the log ", Quoted(path)));
  }
  std::vector<Metrics> result;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (IsEvaluation(object) != evaluations && object.is_object()) continue;
    Metrics metrics;
    if (!FromJson(object, &metrics)) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, " of the log ", Quoted(path),
                       " is not a step: ", Quoted(line)));
    }
    result.push_back(std::move(metrics));
  }
  return result;
}

// The lines of a log that were complete when `step` steps were done.
std::string LinesBefore(const std::string& path, int64_t step) {
  std::ifstream file(path);
  std::string kept, line;
  while (std::getline(file, line)) {
    const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    int64_t logged = 0;
    if (!object.is_object() || !ReadNumber(object, "step", &logged)) continue;
    const bool earlier = IsEvaluation(object) ? logged <= step : logged < step;
    if (earlier) absl::StrAppend(&kept, line, "\n");
  }
  return kept;
}

}  // namespace

int64_t StepMetrics::TotalCalls() const {
  int64_t calls = 0;
  for (const CollectiveMetrics& entry : collectives) calls += entry.calls;
  return calls;
}

int64_t StepMetrics::TotalBytes() const {
  int64_t bytes = 0;
  for (const CollectiveMetrics& entry : collectives) bytes += entry.bytes;
  return bytes;
}

absl::StatusOr<std::unique_ptr<MetricsWriter>> MetricsWriter::Create(
    const std::string& path) {
  std::unique_ptr<MetricsWriter> writer(new MetricsWriter(path));
  writer->file_.open(path, std::ios::trunc);
  if (!writer->file_) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot write the log ", Quoted(path),
                     DetailLine("help",
                                "name a file in a folder that exists "
                                "with --log_json")));
  }
  return writer;
}

absl::StatusOr<std::unique_ptr<MetricsWriter>> MetricsWriter::Resume(
    const std::string& path, int64_t step) {
  const std::string kept = LinesBefore(path, step);
  MTF_ASSIGN_OR_RETURN(std::unique_ptr<MetricsWriter> writer, Create(path));
  writer->file_ << kept << std::flush;
  return writer;
}

absl::Status MetricsWriter::Write(const StepMetrics& metrics) {
  return WriteLine(ToLine(metrics), metrics.step);
}

absl::Status MetricsWriter::WriteEvaluation(
    const EvaluationMetrics& evaluation) {
  const Json line = {{"step", evaluation.step},
                     {"evaluation", evaluation.values}};
  return WriteLine(line.dump(), evaluation.step);
}

absl::Status MetricsWriter::WriteLine(const std::string& line, int64_t step) {
  file_ << line << std::endl;
  if (file_) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("cannot write step ", step,
                                          " to the log ", Quoted(path_),
                                          "; is the disk full?"));
}

absl::StatusOr<std::vector<StepMetrics>> ReadMetrics(const std::string& path) {
  return ReadLog<StepMetrics>(path, /*evaluations=*/false);
}

absl::StatusOr<std::vector<EvaluationMetrics>> ReadEvaluations(
    const std::string& path) {
  return ReadLog<EvaluationMetrics>(path, /*evaluations=*/true);
}

}  // namespace mtf::train
