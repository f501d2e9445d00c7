// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_RECORD_BATCHES_H_
#define TRAIN_DATA_RECORD_BATCHES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "mtf/dimension.h"
#include "train/data/batch_source.h"
#include "train/data/rows/row_format.h"
#include "train/data/sources/record_order.h"

namespace mtf::train {

struct RecordBatchesOptions {
  Dimension batch = {"batch", 0};
  // Read one epoch only, for evaluation. The last batch is filled up with rows
  // of weight 0, so a weighted mean over batches counts each record once.
  bool once = false;
  // Where `first_step` begins in the order. A checkpoint keeps PositionOf the
  // next step; a run that goes on with another batch size continues there.
  int64_t first_step = 0;
  int64_t first_position = 0;
};

// Row r of step s is the record at position
//
//   first_position + (s - first_step) * batch + r
//
// of an order of records, written by a row format.
class RecordBatches final : public BatchSource {
 public:
  // kInvalidArgument for an empty batch or a negative position, and for `once`
  // with a format without weights.
  static absl::StatusOr<std::shared_ptr<const RecordBatches>> Create(
      std::shared_ptr<const RecordOrder> order,
      std::shared_ptr<const RowFormat> format, RecordBatchesOptions options);

  // The number of records drawn before `step`.
  int64_t PositionOf(int64_t step) const;

  std::vector<FeedInfo> feeds() const override;
  int64_t batch_size() const override { return options_.batch.size; }
  int64_t batches_per_epoch() const override;
  absl::StatusOr<std::map<std::string, HostTensor>> Rows(
      int64_t step, int64_t first, int64_t last) const override;
  BadRecordReport bad_records() const override { return order_->bad_records(); }

 private:
  RecordBatches(std::shared_ptr<const RecordOrder> order,
                std::shared_ptr<const RowFormat> format,
                RecordBatchesOptions options);

  const std::shared_ptr<const RecordOrder> order_;
  const std::shared_ptr<const RowFormat> format_;
  const RecordBatchesOptions options_;
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_RECORD_BATCHES_H_
