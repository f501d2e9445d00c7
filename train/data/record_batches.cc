// SPDX-License-Identifier: Apache-2.0
#include "train/data/record_batches.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/status.h"

namespace mtf::train {
namespace {

// `shape` after the dimension `batch`.
Shape WithBatch(const Dimension& batch, const Shape& shape) {
  std::vector<Dimension> dims = {batch};
  dims.insert(dims.end(), shape.begin(), shape.end());
  return Shape(std::move(dims));
}

}  // namespace

RecordBatches::RecordBatches(std::shared_ptr<const RecordOrder> order,
                             std::shared_ptr<const RowFormat> format,
                             RecordBatchesOptions options)
    : order_(std::move(order)),
      format_(std::move(format)),
      options_(std::move(options)) {}

absl::StatusOr<std::shared_ptr<const RecordBatches>> RecordBatches::Create(
    std::shared_ptr<const RecordOrder> order,
    std::shared_ptr<const RowFormat> format, RecordBatchesOptions options) {
  if (options.batch.size < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a batch of ", options.batch.size, " records",
        DetailLine("help", "give RecordBatchesOptions a batch dimension")));
  }
  if (options.first_step < 0 || options.first_position < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data begins at position ", options.first_position, " in step ",
        options.first_step, DetailLine("help", "both count from 0")));
  }
  if (options.once && !format->has_weights()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data that is read once needs weights, because its last batch may have "
        "fewer than ",
        Plural(options.batch.size, "record"),
        DetailLine("help", "set .weights of the row format")));
  }
  // A name or size that is not a dimension's.
  for (const RowInfo& row : format->rows()) {
    MTF_RETURN_IF_ERROR(WithBatch(options.batch, row.shape).Validate());
  }
  return std::shared_ptr<const RecordBatches>(new RecordBatches(
      std::move(order), std::move(format), std::move(options)));
}

int64_t RecordBatches::PositionOf(int64_t step) const {
  return options_.first_position +
         (step - options_.first_step) * options_.batch.size;
}

std::vector<FeedInfo> RecordBatches::feeds() const {
  std::vector<FeedInfo> feeds;
  for (const RowInfo& row : format_->rows()) {
    feeds.push_back(
        {row.name, WithBatch(options_.batch, row.shape), row.dtype});
  }
  return feeds;
}

int64_t RecordBatches::batches_per_epoch() const {
  return (order_->epoch_size() - 1) / options_.batch.size + 1;
}

absl::StatusOr<std::map<std::string, HostTensor>> RecordBatches::Rows(
    int64_t step, int64_t first, int64_t last) const {
  MTF_RETURN_IF_ERROR(CheckRows(first, last));
  // Positions stay below 2^62, so that no index overflows.
  constexpr int64_t kMostPositions = int64_t{1} << 62;
  const int64_t steps = step - options_.first_step;
  if (steps < 0 ||
      steps >= (kMostPositions - options_.first_position) / batch_size()) {
    return absl::OutOfRangeError(absl::StrCat(
        "no data for step ", step, ": data begins at step ",
        options_.first_step,
        DetailLine("help", "give RecordBatchesOptions another first_step")));
  }
  const int64_t end = options_.once ? order_->epoch_size() : kMostPositions;
  const int64_t begin = PositionOf(step);
  if (begin >= end) {
    return absl::OutOfRangeError(absl::StrCat(
        "no data for step ", step, ": the ", Plural(end, "record"), " make ",
        Plural(batches_per_epoch(), "batch"), " and are read once",
        DetailLine("help", "stop after batches_per_epoch() steps")));
  }
  std::vector<HostTensor> tensors;
  for (const RowInfo& row : format_->rows()) {
    tensors.emplace_back(
        WithBatch({options_.batch.name, last - first}, row.shape), row.dtype);
  }
  for (int64_t i = first; i < last; ++i) {
    const int64_t position = begin + i;
    Record record = {.missing = true};
    if (position < end) {
      MTF_ASSIGN_OR_RETURN(record, order_->At(position));
    }
    MTF_RETURN_IF_ERROR(
        format_->Write(record, position, i - first, absl::MakeSpan(tensors)));
  }
  std::map<std::string, HostTensor> feeds;
  const std::vector<RowInfo> rows = format_->rows();
  for (size_t i = 0; i < rows.size(); ++i) {
    feeds.emplace(rows[i].name, std::move(tensors[i]));
  }
  return feeds;
}

}  // namespace mtf::train
