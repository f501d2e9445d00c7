// SPDX-License-Identifier: Apache-2.0
#include "train/loop/event_file.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "train/crc32c.h"

namespace mtf::train {
namespace {

// Writers of Protocol Buffers: a field is a key, number << 3 | type, and a
// value, here a varint (0), eight bytes (1), bytes (2) or four bytes (5).
void AppendVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

template <class T>
void AppendRaw(std::string& out, T value) {  // little endian, as all our hosts
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

void AppendNumber(std::string& out, int field, uint64_t value) {
  AppendVarint(out, field << 3);
  AppendVarint(out, value);
}

void AppendDouble(std::string& out, int field, double value) {
  AppendVarint(out, field << 3 | 1);
  AppendRaw(out, value);
}

void AppendFloat(std::string& out, int field, float value) {
  AppendVarint(out, field << 3 | 5);
  AppendRaw(out, value);
}

void AppendBytes(std::string& out, int field, absl::string_view value) {
  AppendVarint(out, field << 3 | 2);
  AppendVarint(out, value.size());
  out.append(value.data(), value.size());
}

void AppendDoubles(std::string& out, int field,
                   const std::vector<double>& values) {
  std::string packed;
  for (const double value : values) AppendRaw(packed, value);
  AppendBytes(out, field, packed);
}

// Numbers of fields and values of enumerations.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5,
              kSessionLog = 7;  // Event
constexpr int kValue = 1;       // of Summary
constexpr int kTag = 1, kSimple = 2, kHistogram = 5, kTensor = 8, kMetadata = 9;
constexpr int kStringTensor = 7, kTensorStrings = 8;  // of TensorProto
constexpr char kVersion[] = "brain.Event:2";

// The limits of buckets are 0 and +-kLeastLimit * 1.1^k. The last positive one
// overflows to infinity.
constexpr double kLeastLimit = 1e-12;
constexpr int64_t kMostBuckets = 7448;  // of each sign

std::string ValueOf(absl::string_view tag, int field, absl::string_view bytes) {
  std::string value;
  AppendBytes(value, kTag, tag);
  AppendBytes(value, field, bytes);
  return value;
}

// The metadata of a string that `name`, a plugin of TensorBoard, shows.
std::string MetadataOf(absl::string_view name) {
  std::string plugin, metadata;
  AppendBytes(plugin, 1, name);
  AppendBytes(metadata, 1, plugin);
  AppendNumber(metadata, 4, 2);  // DATA_CLASS_TENSOR
  return metadata;
}

double SystemSeconds() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') {
    return "localhost";
  }
  std::string text = name;
  std::replace(text.begin(), text.end(), '/', '_');
  return text;
}

absl::Status CannotCreate(const std::string& path, const std::string& why) {
  return absl::PermissionDeniedError(
      absl::StrCat("cannot write the event file ", Quoted(path), ": ", why,
                   DetailLine("help", "name a folder that can be written")));
}

}  // namespace

Histogram MakeHistogram(absl::Span<const double> values) {
  Histogram result;
  std::vector<int64_t> counts(2 * kMostBuckets + 1);
  const double step = std::log(1.1);
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    int64_t bucket = 0;
    const double size = std::abs(value);
    if (size >= kLeastLimit) {
      const double k = std::min<double>(
          std::floor(std::log(size / kLeastLimit) / step), kMostBuckets - 1);
      bucket = 1 + static_cast<int64_t>(k);
    }
    ++counts[kMostBuckets + (value > 0 ? bucket : -bucket)];
    result.min = result.count == 0 ? value : std::min(result.min, value);
    result.max = result.count == 0 ? value : std::max(result.max, value);
    ++result.count;
    result.sum += value;
    result.sum_of_squares += value * value;
  }
  for (int64_t i = 0; i <= 2 * kMostBuckets; ++i) {
    if (counts[i] == 0) continue;
    const auto bucket = static_cast<double>(i - kMostBuckets);
    const double limit = bucket == 0 ? 0
                         : bucket > 0
                             ? kLeastLimit * std::exp(step * bucket)
                             : -kLeastLimit * std::exp(step * (-bucket - 1));
    result.limits.push_back(limit);
    result.counts.push_back(static_cast<double>(counts[i]));
  }
  return result;
}

void AddHistogram(const Histogram& other, Histogram& sum) {
  if (other.count == 0) return;
  sum.min = sum.count == 0 ? other.min : std::min(sum.min, other.min);
  sum.max = sum.count == 0 ? other.max : std::max(sum.max, other.max);
  sum.count += other.count;
  sum.sum += other.sum;
  sum.sum_of_squares += other.sum_of_squares;
  std::map<double, double> buckets;  // counts by upper limit
  for (const Histogram* part : {&other, &std::as_const(sum)}) {
    for (size_t i = 0; i < part->limits.size(); ++i) {
      buckets[part->limits[i]] += part->counts[i];
    }
  }
  sum.limits.clear();
  sum.counts.clear();
  for (const auto& [limit, count] : buckets) {
    sum.limits.push_back(limit);
    sum.counts.push_back(count);
  }
}

absl::StatusOr<std::unique_ptr<EventWriter>> EventWriter::Create(
    const std::string& folder, Clock clock) {
  if (clock == nullptr) clock = &SystemSeconds;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return CannotCreate(folder, error.message());
  const std::string stem =
      absl::StrFormat("%s/events.out.tfevents.%010d.%s", folder,
                      static_cast<int64_t>(clock()), HostName());
  std::string path = stem;
  for (int i = 1; std::filesystem::exists(path, error); ++i) {
    path = absl::StrCat(stem, ".", i);
  }
  std::unique_ptr<EventWriter> writer(new EventWriter(path, std::move(clock)));
  writer->file_.open(path, std::ios::binary);
  if (!writer->file_) return CannotCreate(path, std::strerror(errno));
  std::string event;
  AppendDouble(event, kWallTime, writer->clock_());
  AppendBytes(event, kFileVersion, kVersion);
  MTF_RETURN_IF_ERROR(writer->Write(event));
  MTF_RETURN_IF_ERROR(writer->Flush());
  return writer;
}

absl::Status EventWriter::AddScalars(
    int64_t step, const std::map<std::string, double>& values) {
  std::string summary;
  for (const auto& [name, value] : values) {
    std::string scalar;
    AppendBytes(scalar, kTag, name);
    AppendFloat(scalar, kSimple, static_cast<float>(value));
    AppendBytes(summary, kValue, scalar);
  }
  std::string event;
  AppendDouble(event, kWallTime, clock_());
  AppendNumber(event, kStep, step);
  AppendBytes(event, kSummary, summary);
  return Write(event);
}

absl::Status EventWriter::AddHistogram(int64_t step, absl::string_view name,
                                       const Histogram& histogram) {
  std::string bytes, summary, event;
  AppendDouble(bytes, 1, histogram.min);
  AppendDouble(bytes, 2, histogram.max);
  AppendDouble(bytes, 3, histogram.count);
  AppendDouble(bytes, 4, histogram.sum);
  AppendDouble(bytes, 5, histogram.sum_of_squares);
  AppendDoubles(bytes, 6, histogram.limits);
  AppendDoubles(bytes, 7, histogram.counts);
  AppendBytes(summary, kValue, ValueOf(name, kHistogram, bytes));
  AppendDouble(event, kWallTime, clock_());
  AppendNumber(event, kStep, step);
  AppendBytes(event, kSummary, summary);
  return Write(event);
}

absl::Status EventWriter::AddText(int64_t step, absl::string_view name,
                                  absl::string_view text) {
  return AddString(step, name, text, "text", /*is_scalar=*/false);
}

// Fields of layout.proto of TensorBoard's plugin custom_scalar.
absl::Status EventWriter::AddCharts(absl::string_view title,
                                    const std::vector<Chart>& charts) {
  std::string category, layout;
  AppendBytes(category, 1, title);
  for (const Chart& chart : charts) {
    std::string lines, bytes;
    for (const std::string& name : chart.names) AppendBytes(lines, 1, name);
    AppendBytes(bytes, 1, chart.title);
    AppendBytes(bytes, 2, lines);
    AppendBytes(category, 2, bytes);
  }
  AppendBytes(layout, 2, category);
  return AddString(0, "custom_scalars__config__", layout, "custom_scalars",
                   /*is_scalar=*/true);
}

// A string as a tensor: a scalar, or of one element in one dimension.
absl::Status EventWriter::AddString(int64_t step, absl::string_view name,
                                    absl::string_view text,
                                    absl::string_view plugin, bool is_scalar) {
  std::string shape, dim, tensor, summary, event;
  AppendNumber(dim, 1, 1);
  if (!is_scalar) AppendBytes(shape, 2, dim);
  AppendNumber(tensor, 1, kStringTensor);
  AppendBytes(tensor, 2, shape);
  AppendBytes(tensor, kTensorStrings, text);
  std::string value = ValueOf(name, kTensor, tensor);
  AppendBytes(value, kMetadata, MetadataOf(plugin));
  AppendBytes(summary, kValue, value);
  AppendDouble(event, kWallTime, clock_());
  AppendNumber(event, kStep, step);
  AppendBytes(event, kSummary, summary);
  return Write(event);
}

absl::Status EventWriter::AddStart(int64_t step) {
  std::string log, event;
  AppendNumber(log, 1, 1);  // START
  AppendDouble(event, kWallTime, clock_());
  AppendNumber(event, kStep, step);
  AppendBytes(event, kSessionLog, log);
  return Write(event);
}

absl::Status EventWriter::Write(absl::string_view event) {
  std::string length;
  AppendRaw<uint64_t>(length, event.size());
  std::string frame = length;
  AppendRaw<uint32_t>(frame, MaskedCrc32c(length));
  frame.append(event.data(), event.size());
  AppendRaw<uint32_t>(frame, MaskedCrc32c(event));
  file_.write(frame.data(), static_cast<std::streamsize>(frame.size()));
  if (file_) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "cannot write the event file ", Quoted(path_), "; is the disk full?"));
}

absl::Status EventWriter::Flush() {
  if (file_.flush()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "cannot write the event file ", Quoted(path_), "; is the disk full?"));
}

}  // namespace mtf::train
