// SPDX-License-Identifier: Apache-2.0
#include "train/data/sources/bad_records.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "layouts/text_items.h"

namespace mtf::train {

void BadRecordReport::Append(const BadRecordReport& other) {
  count += other.count;
  for (const std::string& message : other.first) {
    if (first.size() < BadRecordLog::kMostMessages) first.push_back(message);
  }
}

std::string BadRecordReport::ToString() const {
  if (count == 0) return "";
  std::string text = Plural(count, "bad record");
  for (const std::string& message : first) {
    // Details of a message are indented below it.
    absl::StrAppend(&text, "\n  ",
                    absl::StrReplaceAll(message, {{"\n", "\n  "}}));
  }
  if (count > static_cast<int64_t>(first.size())) {
    absl::StrAppend(&text, "\n  and ",
                    count - static_cast<int64_t>(first.size()), " more");
  }
  return text;
}

void BadRecordLog::Add(int64_t record, const absl::Status& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!records_.insert(record).second) return;
  if (first_.size() < kMostMessages) first_.emplace_back(why.message());
}

BadRecordReport BadRecordLog::report() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {static_cast<int64_t>(records_.size()), first_};
}

}  // namespace mtf::train
