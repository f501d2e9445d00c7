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

// Reads the summaries, of which there may be none.
bool ReadSummaries(const Json& object, StepMetrics* metrics) {
  const auto summaries = object.find("summaries");
  if (summaries == object.end()) return true;
  if (!summaries->is_object()) return false;
  for (const auto& [name, value] : summaries->items()) {
    if (!value.is_number() && !value.is_null()) return false;
    metrics->summaries[name] =
        value.is_null() ? std::nan("") : value.get<double>();
  }
  return true;
}

bool FromLine(const std::string& line, StepMetrics* metrics) {
  const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
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
  return ReadSummaries(object, metrics);
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

absl::Status MetricsWriter::Write(const StepMetrics& metrics) {
  file_ << ToLine(metrics) << std::endl;
  if (file_) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("cannot write step ", metrics.step,
                                          " to the log ", Quoted(path_),
                                          "; is the disk full?"));
}

absl::StatusOr<std::vector<StepMetrics>> ReadMetrics(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return absl::NotFoundError(
        absl::StrCat("cannot read the log ", Quoted(path)));
  }
  std::vector<StepMetrics> steps;
  std::string line;
  while (std::getline(file, line)) {
    StepMetrics metrics;
    if (!FromLine(line, &metrics)) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", steps.size() + 1, " of the log ", Quoted(path),
                       " is not a step: ", Quoted(line)));
    }
    steps.push_back(std::move(metrics));
  }
  return steps;
}

}  // namespace mtf::train
