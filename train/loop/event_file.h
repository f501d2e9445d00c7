// SPDX-License-Identifier: Apache-2.0
//
// Event files, which TensorBoard shows as curves, histograms and texts. The
// format is public: frames of TFRecord (a length, its checksum, the bytes,
// their checksum) around messages of event.proto and summary.proto of
// TensorFlow, in the encoding of Protocol Buffers.
#ifndef TRAIN_LOOP_EVENT_FILE_H_
#define TRAIN_LOOP_EVENT_FILE_H_

#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace mtf::train {

// Counts of values in buckets whose limits grow by a tenth, as TensorFlow
// makes them. Values that are not finite are left out.
struct Histogram {
  double min = 0, max = 0, count = 0, sum = 0, sum_of_squares = 0;
  std::vector<double> limits;  // upper limits, rising
  std::vector<double> counts;  // of each bucket
  friend bool operator==(const Histogram&, const Histogram&) = default;
};
Histogram MakeHistogram(absl::Span<const double> values);

// Adds the counts of `other`, so that `sum` is the histogram of the values of
// both. Counts are exact; sums depend on the order by their rounding.
void AddHistogram(const Histogram& other, Histogram& sum);

// Writes an event file. Each call appends a record; Flush makes the records
// visible to a reader.
//
//   MTF_ASSIGN_OR_RETURN(const auto events, EventWriter::Create("runs/a"));
//   MTF_RETURN_IF_ERROR(events->AddScalars(step, {{"loss", loss}}));
//   MTF_RETURN_IF_ERROR(events->Flush());
class EventWriter {
 public:
  // The seconds since 1970.
  using Clock = std::function<double()>;

  // Creates the file "events.out.tfevents.<seconds>.<host>" in `folder`, which
  // is created if it does not exist. kPermissionDenied if that fails. An
  // existing file keeps its name and gets a neighbour.
  static absl::StatusOr<std::unique_ptr<EventWriter>> Create(
      const std::string& folder, Clock clock = nullptr);

  // Each returns kDataLoss if the write fails.
  absl::Status AddScalars(int64_t step,
                          const std::map<std::string, double>& values);
  absl::Status AddHistogram(int64_t step, absl::string_view name,
                            const Histogram& histogram);
  absl::Status AddText(int64_t step, absl::string_view name,
                       absl::string_view text);
  // Asks for charts side by side in the dashboard "custom scalars". Each shows
  // the scalars whose names match one of its regular expressions.
  struct Chart {
    std::string title;
    std::vector<std::string> names;
  };
  absl::Status AddCharts(absl::string_view title,
                         const std::vector<Chart>& charts);
  // Says that the run begins, or goes on, at `step`: TensorBoard drops what
  // earlier files of the folder have from there on.
  absl::Status AddStart(int64_t step);
  absl::Status Flush();

  const std::string& path() const { return path_; }

 private:
  EventWriter(std::string path, Clock clock)
      : path_(std::move(path)), clock_(std::move(clock)) {}
  absl::Status AddString(int64_t step, absl::string_view name,
                         absl::string_view text, absl::string_view plugin,
                         bool is_scalar);
  absl::Status Write(absl::string_view event);

  std::string path_;
  Clock clock_;
  std::ofstream file_;
};

// A record of an event file, as far as EventWriter writes it.
struct Event {
  double wall_time = 0;
  int64_t step = 0;
  std::string file_version;  // of the first record
  bool starts = false;       // of AddStart
  std::map<std::string, float> scalars;
  std::map<std::string, Histogram> histograms;
  std::map<std::string, std::string> texts;
};

// Reads an event file; fields that EventWriter does not write are skipped. A
// record that ends early, as when a run is killed, ends the list. kNotFound if
// the file cannot be read; kDataLoss, with path and offset, for a checksum that
// does not match or a record that is not an event.
absl::StatusOr<std::vector<Event>> ReadEvents(const std::string& path);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_EVENT_FILE_H_
