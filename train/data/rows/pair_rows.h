// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_ROWS_PAIR_ROWS_H_
#define TRAIN_DATA_ROWS_PAIR_ROWS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "mtf/dimension.h"
#include "train/data/rows/row_format.h"

namespace mtf::train {

struct PairOptions {
  Dimension inputs_length = {"inputs_length", 0};
  Dimension targets_length = {"targets_length", 0};
  int32_t pad = 0;    // the token that fills a row up
  int32_t start = 0;  // the first token that the decoder reads
};

// Inputs with targets, as rows of an encoder and a decoder.
//
//   inputs          i32[batch, inputs_length]
//   decoder_inputs  i32[batch, targets_length]  .start, and the targets but the
//                                               last: what is known before each
//   targets         i32[batch, targets_length]
//   weights         f32[batch, targets_length]  1, or 0 for padding
//
// What is longer than a row is cut off at its end.
class PairRows final : public RowFormat {
 public:
  explicit PairRows(PairOptions options) : options_(std::move(options)) {}

  std::vector<RowInfo> rows() const override;
  bool has_weights() const override { return true; }
  absl::Status Write(const Record& record, int64_t position, int64_t row,
                     absl::Span<HostTensor> feeds) const override;

 private:
  const PairOptions options_;
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_ROWS_PAIR_ROWS_H_
