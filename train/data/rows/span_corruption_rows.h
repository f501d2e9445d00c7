// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_ROWS_SPAN_CORRUPTION_ROWS_H_
#define TRAIN_DATA_ROWS_SPAN_CORRUPTION_ROWS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "train/data/rows/pair_rows.h"
#include "train/data/rows/row_format.h"
#include "train/tokenizers/tokenizer.h"

namespace mtf::train {

struct SpanCorruptionOptions {
  double noise_density = 0.15;  // part of the tokens to predict
  double mean_span_length = 3;  // of these tokens, in a row
  // The ids that stand for spans: first_sentinel, first_sentinel - 1, ...
  // The last ids of the vocabulary in T5, 32099 to 32000.
  int32_t first_sentinel = SpecialTokens::kNone;
  int32_t sentinels = 100;
  int32_t eos = SpecialTokens::kNone;  // ends inputs and targets, unless kNone
  uint32_t seed = 0;
};

// How many of `tokens` >= 2 tokens are noise, and in how many spans.
struct SpanCounts {
  int64_t noise = 0;
  int64_t spans = 0;
};
SpanCounts CountSpans(int64_t tokens, const SpanCorruptionOptions& options);

// Span corruption of T5 (Raffel et al., 2020): of n tokens, round(n * density)
// are noise, in round(noise / mean) spans of random lengths between stretches
// of random lengths; both at least 1. The text begins with a stretch.
//
//   tokens   a b c d e f g h i j     noise: c d, h
//   inputs   a b <0> e f g <1> i j
//   targets  <0> c d <1> h
//
// Text with fewer than two tokens has none to spare; its targets are empty.
// Record has `tokens` (inputs) and `targets`. Lengths are drawn by the seed and
// `position`.
Record CorruptSpans(absl::Span<const int32_t> tokens,
                    const SpanCorruptionOptions& options, int64_t position);

// Texts as rows of an encoder and a decoder that restores spans; the feeds are
// those of PairRows. A text is cut off where its inputs or targets would not
// fit into a row. Spans depend on the seed and the position in the order, so
// each epoch has others.
class SpanCorruptionRows final : public RowFormat {
 public:
  // kInvalidArgument if the density is not between 0 and 1, the mean length
  // below 1, rows too short for two tokens, or a row has more spans than there
  // are sentinels.
  static absl::StatusOr<std::shared_ptr<const SpanCorruptionRows>> Create(
      PairOptions pair, SpanCorruptionOptions options);

  // The most tokens of a text whose inputs and targets fit into a row. Windows
  // of a token stream have this length.
  int64_t most_tokens() const { return most_tokens_; }

  std::vector<RowInfo> rows() const override { return pair_.rows(); }
  bool has_weights() const override { return true; }
  absl::Status Write(const Record& record, int64_t position, int64_t row,
                     absl::Span<HostTensor> feeds) const override;

 private:
  SpanCorruptionRows(PairOptions pair, SpanCorruptionOptions options,
                     int64_t most_tokens)
      : pair_(std::move(pair)), options_(options), most_tokens_(most_tokens) {}

  const PairRows pair_;
  const SpanCorruptionOptions options_;
  const int64_t most_tokens_;
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_ROWS_SPAN_CORRUPTION_ROWS_H_
