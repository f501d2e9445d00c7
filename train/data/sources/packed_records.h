// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_SOURCES_PACKED_RECORDS_H_
#define TRAIN_DATA_SOURCES_PACKED_RECORDS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "train/data/sources/bad_records.h"
#include "train/data/sources/record.h"

namespace mtf::train {

struct PackingOptions {
  int64_t length = 0;  // most tokens of a row
  // A text of over `length` tokens becomes several; otherwise its end is lost.
  bool split_long = true;
  // Rows that are filled at the same time; a text goes to the one that it fills
  // best. 1 only joins neighbours.
  int open_rows = 64;
  // Bad records are left out and listed; otherwise the first one is an error.
  bool skip_bad_records = false;
};

// Short texts packed into rows, so that little of a row is padding. A record
// has the tokens of one row, with `segments` and `positions` of its texts; see
// nn::SegmentMask.
//
// Packing reads every text once when it is created, to know the lengths, and
// does not depend on the order of reading: the texts of a row stay together in
// every epoch, and rows are shuffled. The index takes 16 bytes per text.
//
// The algorithm is best fit with a bound on open rows: a text that fits into no
// open row closes the fullest one.
class PackedRecords final : public RecordSource {
 public:
  // kInvalidArgument for a length below 2; the error of a bad record.
  static absl::StatusOr<std::shared_ptr<const PackedRecords>> Create(
      std::shared_ptr<const RecordSource> texts, PackingOptions options);

  int64_t size() const override {
    return static_cast<int64_t>(row_begins_.size()) - 1;
  }
  absl::StatusOr<Record> Read(int64_t index) const override;
  std::string NameOf(int64_t index) const override;

  // The texts that were left out.
  BadRecordReport bad_records() const { return bad_.report(); }

 private:
  // Tokens [begin, begin + size) of a text.
  struct Piece {
    int64_t text = 0;
    int32_t begin = 0;
    int32_t size = 0;
  };
  struct OpenRow {
    int64_t free = 0;
    std::vector<Piece> pieces = {};
  };

  PackedRecords(std::shared_ptr<const RecordSource> texts,
                PackingOptions options);
  absl::Status PackAll();
  void PackText(int64_t text, int64_t size, std::vector<OpenRow>& open);
  void Close(OpenRow& row);

  const std::shared_ptr<const RecordSource> texts_;
  const PackingOptions options_;
  std::vector<Piece> pieces_;        // row after row
  std::vector<int64_t> row_begins_;  // in pieces_, and the end
  BadRecordLog bad_;
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_SOURCES_PACKED_RECORDS_H_
