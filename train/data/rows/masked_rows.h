// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_ROWS_MASKED_ROWS_H_
#define TRAIN_DATA_ROWS_MASKED_ROWS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mtf/dimension.h"
#include "train/data/rows/row_format.h"
#include "train/tokenizers/tokenizer.h"

namespace mtf::train {

struct MaskingOptions {
  Dimension length = {"length", 0};
  int64_t vocabulary = 0;
  // bos and eos ([CLS] and [SEP] of BERT) are put around a text, and pad after
  // it; mask is [MASK]. Without pad, rows are filled up with 0.
  SpecialTokens special = {};
  // Records are pairs of sentences (train/data/sentence_pairs.h).
  bool pairs = false;
  double rate = 0.15;  // part of the tokens to predict
  uint32_t seed = 0;
};

// Texts as rows of a masked language model (BERT, Devlin et al., 2019). Of n
// tokens, round(n * rate), at least 1, are to be predicted. Of these, 8 in 10
// are replaced by [MASK], 1 in 10 by a random token, and 1 in 10 stays, each
// token by its own draw.
//
//   tokens   i32[batch, length]
//   targets  i32[batch, length]  the text before it was masked
//   weights  f32[batch, length]  1 for tokens to predict, 0 for others
//
// A row is one whole text; what is longer than a row is cut off at its end.
// With .pairs it is the sentences `tokens` and `targets` of a record, each of
// them ended by eos, of which the longer one is cut off at its end, and there
// are two more feeds:
//
//   token_types     i32[batch, length]  1 for the second sentence and its end,
//                                       0 for others
//   next_sentences  i32[batch]          the label of the record
//
// Draws depend on the seed and the position in the order, so each epoch masks
// others. nn::PaddingMask excludes padding from attention.
class MaskedRows final : public RowFormat {
 public:
  // kInvalidArgument if there is no mask token, the rate is not between 0 and
  // 1, a special token is not in the vocabulary, or rows are too short.
  static absl::StatusOr<std::shared_ptr<const MaskedRows>> Create(
      MaskingOptions options);

  std::vector<RowInfo> rows() const override;
  bool has_weights() const override { return true; }
  absl::Status Write(const Record& record, int64_t position, int64_t row,
                     absl::Span<HostTensor> feeds) const override;

 private:
  explicit MaskedRows(MaskingOptions options) : options_(std::move(options)) {}

  const MaskingOptions options_;
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_ROWS_MASKED_ROWS_H_
