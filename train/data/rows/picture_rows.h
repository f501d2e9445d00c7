// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_ROWS_PICTURE_ROWS_H_
#define TRAIN_DATA_ROWS_PICTURE_ROWS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mtf/dimension.h"
#include "train/data/rows/row_format.h"

namespace mtf::train {

struct PictureOptions {
  Dimension height = {"height", 0};
  Dimension width = {"width", 0};
  Dimension channels = {"channels", 3};
  // Of the values 0 to 1, by channel; a single number is that of all channels.
  std::vector<float> mean = {0};
  std::vector<float> stddev = {1};
  bool weights = false;
};

// Pictures with their classes.
//
//   pictures  f32[batch, height, width, channels]
//                         (pixel / 255 - mean) / stddev
//   labels    i32[batch]
//   weights   f32[batch]  with .weights: 1, or 0 for a missing picture
class PictureRows final : public RowFormat {
 public:
  // kInvalidArgument for another number of means or deviations than channels,
  // and for a deviation that is not positive.
  static absl::StatusOr<std::shared_ptr<const PictureRows>> Create(
      PictureOptions options);

  std::vector<RowInfo> rows() const override;
  bool has_weights() const override { return options_.weights; }
  absl::Status Write(const Record& record, int64_t position, int64_t row,
                     absl::Span<HostTensor> feeds) const override;

 private:
  explicit PictureRows(PictureOptions options) : options_(std::move(options)) {}

  const PictureOptions options_;
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_ROWS_PICTURE_ROWS_H_
