// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_SOURCES_RECORD_H_
#define TRAIN_DATA_SOURCES_RECORD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mtf::train {

// One record of a data set. A source fills in the fields of its kind.
struct Record {
  // Ids of a text, or of the input of a pair.
  std::vector<int32_t> tokens = {};
  // Ids of the target of a pair.
  std::vector<int32_t> targets = {};
  // Of several texts packed into one record, for each token: the number of its
  // text, from 1, and its position in it.
  std::vector<int32_t> segments = {};
  std::vector<int32_t> positions = {};
  // A picture in the order [height, width, channels], and its class.
  std::vector<uint8_t> pixels = {};
  int32_t label = 0;
  // A place in the order without a record: after the last one, or that of an
  // omitted bad record. Its row has weight 0.
  bool missing = false;
};

// Records by number. A call depends on its arguments only, so any number of
// threads may read at once.
class RecordSource {
 public:
  virtual ~RecordSource() = default;

  virtual int64_t size() const = 0;

  // Record `index`, 0 <= index < size(). kDataLoss, with the name of the
  // record, if it is damaged; the order of records (record_order.h) can replace
  // or omit such a record. Other errors end a run.
  virtual absl::StatusOr<Record> Read(int64_t index) const = 0;

  // Where a user finds the record: "train.jsonl:17".
  virtual std::string NameOf(int64_t index) const = 0;
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_SOURCES_RECORD_H_
