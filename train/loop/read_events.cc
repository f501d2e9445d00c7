// SPDX-License-Identifier: Apache-2.0
//
// The reader of event files. Nothing in the bytes is trusted: every length is
// compared with what is left before it is used.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/read_file.h"
#include "mtf/status.h"
#include "train/crc32c.h"
#include "train/loop/event_file.h"

namespace mtf::train {
namespace {

template <class T>
T RawAt(absl::string_view bytes, size_t offset = 0) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

// A field of a message: its number and its value, as a number or as bytes.
struct Field {
  int number = 0;
  uint64_t value = 0;       // of a varint
  absl::string_view bytes;  // of all others
  double AsDouble() const {
    return bytes.size() == sizeof(double) ? RawAt<double>(bytes) : 0;
  }
};

bool TakeVarint(absl::string_view& rest, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(rest[0]);
    rest.remove_prefix(1);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

// Takes the next field from the front of `rest`; false if there is no whole
// one.
bool TakeField(absl::string_view& rest, Field& field) {
  uint64_t key = 0, size = 0;
  if (!TakeVarint(rest, key) || key >> 3 == 0 || key >> 3 > 1 << 28) {
    return false;
  }
  field.number = static_cast<int>(key >> 3);
  field.value = 0;
  field.bytes = {};
  switch (key & 7) {
    case 0:
      return TakeVarint(rest, field.value);
    case 1:
      size = 8;
      break;
    case 2:
      if (!TakeVarint(rest, size)) return false;
      break;
    case 5:
      size = 4;
      break;
    default:
      return false;
  }
  if (size > rest.size()) return false;
  field.bytes = rest.substr(0, size);
  rest.remove_prefix(size);
  return true;
}

// Calls `use` with each field of `message`; false if one is not whole or `use`
// returns false.
template <class Use>
bool ForEachField(absl::string_view message, const Use& use) {
  Field field;
  while (!message.empty()) {
    if (!TakeField(message, field) || !use(field)) return false;
  }
  return true;
}

bool ReadDoubles(absl::string_view packed, std::vector<double>& values) {
  if (packed.size() % sizeof(double) != 0) return false;
  for (size_t i = 0; i < packed.size(); i += sizeof(double)) {
    values.push_back(RawAt<double>(packed, i));
  }
  return true;
}

bool ReadHistogram(absl::string_view message, Histogram& histogram) {
  return ForEachField(message, [&histogram](const Field& field) {
    double* const numbers[] = {&histogram.min, &histogram.max, &histogram.count,
                               &histogram.sum, &histogram.sum_of_squares};
    if (field.number <= 5) *numbers[field.number - 1] = field.AsDouble();
    if (field.number == 6) return ReadDoubles(field.bytes, histogram.limits);
    if (field.number == 7) return ReadDoubles(field.bytes, histogram.counts);
    return true;
  });
}

// A Summary.Value.
bool ReadSummaryValue(absl::string_view message, Event& event) {
  std::string tag;
  return ForEachField(message, [&](const Field& field) {
    switch (field.number) {
      case 1:
        tag = std::string(field.bytes);
        return true;
      case 2:
        if (field.bytes.size() != sizeof(float)) return false;
        event.scalars[tag] = RawAt<float>(field.bytes);
        return true;
      case 5:
        return ReadHistogram(field.bytes, event.histograms[tag]);
      case 8:
        return ForEachField(field.bytes, [&](const Field& part) {
          if (part.number == 8) event.texts[tag] = std::string(part.bytes);
          return true;
        });
      default:
        return true;
    }
  });
}

bool ReadEvent(absl::string_view message, Event& event) {
  return ForEachField(message, [&event](const Field& field) {
    switch (field.number) {
      case 1:
        event.wall_time = field.AsDouble();
        return true;
      case 2:
        event.step = static_cast<int64_t>(field.value);
        return true;
      case 3:
        event.file_version = std::string(field.bytes);
        return true;
      case 5:
        return ForEachField(field.bytes, [&event](const Field& value) {
          return value.number != 1 || ReadSummaryValue(value.bytes, event);
        });
      case 7:
        event.starts = true;
        return true;
      default:
        return true;
    }
  });
}

}  // namespace

absl::StatusOr<std::vector<Event>> ReadEvents(const std::string& path) {
  constexpr int64_t kMaxBytes = int64_t{1} << 32;
  constexpr size_t kHeader = 12, kFooter = 4;
  MTF_ASSIGN_OR_RETURN(const std::string bytes,
                       ReadPlainFile(path, "event file", kMaxBytes));
  const auto damaged = [&path](size_t offset, absl::string_view what) {
    return absl::DataLossError(absl::StrCat("event file ", Quoted(path), ": ",
                                            what, " at byte ", offset));
  };
  std::vector<Event> events;
  size_t offset = 0;
  while (bytes.size() - offset >= kHeader) {
    const absl::string_view rest = absl::string_view(bytes).substr(offset);
    const auto length = RawAt<uint64_t>(rest);
    if (RawAt<uint32_t>(rest, 8) != MaskedCrc32c(rest.substr(0, 8))) {
      return damaged(offset, "the length of a record has a wrong checksum");
    }
    if (length > rest.size() - kHeader ||
        rest.size() - kHeader - length < kFooter) {
      break;  // a run that was killed
    }
    const absl::string_view record = rest.substr(kHeader, length);
    if (RawAt<uint32_t>(rest, kHeader + length) != MaskedCrc32c(record)) {
      return damaged(offset, "a record has a wrong checksum");
    }
    Event event;
    if (!ReadEvent(record, event)) return damaged(offset, "no event");
    events.push_back(std::move(event));
    offset += kHeader + length + kFooter;
  }
  return events;
}

}  // namespace mtf::train
