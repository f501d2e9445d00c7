// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_SOURCES_BAD_RECORDS_H_
#define TRAIN_DATA_SOURCES_BAD_RECORDS_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"

namespace mtf::train {

// What was found wrong with the records of a data set.
struct BadRecordReport {
  int64_t count = 0;
  // The messages of the first ones, each with the name of its record.
  std::vector<std::string> first = {};

  // Adds the counts and messages of another data set.
  void Append(const BadRecordReport& other);

  // "3 bad records" with a detail line for each message, or "".
  std::string ToString() const;
};

// Collects bad records. A record that is read again, such as in the next epoch,
// is counted once. Thread-safe.
class BadRecordLog {
 public:
  static constexpr size_t kMostMessages = 8;

  void Add(int64_t record, const absl::Status& why);
  BadRecordReport report() const;

 private:
  mutable std::mutex mutex_;
  absl::flat_hash_set<int64_t> records_;
  std::vector<std::string> first_;
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_SOURCES_BAD_RECORDS_H_
