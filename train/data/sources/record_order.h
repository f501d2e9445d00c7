// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_SOURCES_RECORD_ORDER_H_
#define TRAIN_DATA_SOURCES_RECORD_ORDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "train/data/sources/bad_records.h"
#include "train/data/sources/record.h"

namespace mtf::train {

// An endless order of records. The record at a position is a function of the
// position alone: it does not depend on ranks, threads, the size of a batch or
// on what was read before. So the position is all that a checkpoint keeps.
// Thread-safe.
class RecordOrder {
 public:
  virtual ~RecordOrder() = default;

  // The record at `position`, from 0.
  virtual absl::StatusOr<Record> At(int64_t position) const = 0;

  // The number of positions of an epoch, which reads each record once.
  virtual int64_t epoch_size() const = 0;

  // The bad records that were read so far, each counted once.
  virtual BadRecordReport bad_records() const = 0;
};

enum class OnBadRecord : uint8_t {
  kFail,     // the error of the record ends the run
  kReplace,  // the next good record of the source takes its place
  kOmit,     // its row is missing and has weight 0, for evaluation
};

struct EpochOrderOptions {
  bool shuffle = true;  // each epoch by another permutation; else as stored
  uint32_t seed = 0;
  OnBadRecord on_bad_record = OnBadRecord::kFail;
};

// The records of one source, epoch after epoch.
//
//   MTF_ASSIGN_OR_RETURN(auto order, EpochOrder(source, {.seed = 1}));
//
// kInvalidArgument if the source is empty. With kReplace, reading fails after
// 1000 bad records in a row.
absl::StatusOr<std::shared_ptr<const RecordOrder>> EpochOrder(
    std::shared_ptr<const RecordSource> source, EpochOrderOptions options = {});

struct WeightedOrder {
  std::shared_ptr<const RecordOrder> order;
  double weight = 1;  // its part of the positions, relative to the others
};

// Several orders mixed by weight. Positions are given out in a fixed pattern of
// 65536, each to the order that lags behind its weight most, so any stretch of
// positions has the parts asked for within a record or two. An order that is
// shorter than its part begins its next epoch. An epoch of the mixture ends
// when every order has ended an epoch.
//
// kInvalidArgument for no orders, for a weight that is not a positive number,
// or one of less than 1/65536 of the sum.
absl::StatusOr<std::shared_ptr<const RecordOrder>> MixedOrder(
    std::vector<WeightedOrder> orders);

}  // namespace mtf::train

#endif  // TRAIN_DATA_SOURCES_RECORD_ORDER_H_
