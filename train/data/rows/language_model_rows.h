// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_ROWS_LANGUAGE_MODEL_ROWS_H_
#define TRAIN_DATA_ROWS_LANGUAGE_MODEL_ROWS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "mtf/dimension.h"
#include "train/data/rows/row_format.h"

namespace mtf::train {

struct LanguageModelOptions {
  Dimension length = {"length", 0};
  int32_t pad = 0;  // the token that fills a row up
  bool weights = false;
  bool segments = false;
};

// Texts as rows of a language model: each token is to predict the next one of
// its text.
//
//   tokens     i32[batch, length]
//   targets    i32[batch, length]  the token after each
//   weights    f32[batch, length]  with .weights: 1, or 0 where there is no
//                                  target: in padding and at the end of a text
//   segments   i32[batch, length]  with .segments: the number of the text in
//                                  its row, from 1; 0 in padding
//   positions  i32[batch, length]  with .segments: the position in the text
//
// A record of n tokens (a window, or a text) gives n - 1 of these positions; a
// packed one n, those at the end of a text without a target. What is longer
// than a row is cut off at its end. Records that do not fill a row need
// .weights, so that padding has no effect on the loss.
class LanguageModelRows final : public RowFormat {
 public:
  explicit LanguageModelRows(LanguageModelOptions options)
      : options_(std::move(options)) {}

  std::vector<RowInfo> rows() const override;
  bool has_weights() const override { return options_.weights; }
  absl::Status Write(const Record& record, int64_t position, int64_t row,
                     absl::Span<HostTensor> feeds) const override;

 private:
  const LanguageModelOptions options_;
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_ROWS_LANGUAGE_MODEL_ROWS_H_
