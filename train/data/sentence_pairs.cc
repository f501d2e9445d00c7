// SPDX-License-Identifier: Apache-2.0
#include "train/data/sentence_pairs.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "train/data/rows/data_random.h"

namespace mtf::train {
namespace {

constexpr uint32_t kSentencePairStream = 0xda7a5ed;

class PairOrder final : public RecordOrder {
 public:
  PairOrder(std::shared_ptr<const RecordOrder> texts, uint32_t seed)
      : texts_(std::move(texts)), seed_(seed) {}

  absl::StatusOr<Record> At(int64_t position) const override {
    MTF_ASSIGN_OR_RETURN(Record record, texts_->At(position));
    if (record.missing) return record;
    auto middle =
        record.tokens.begin() + static_cast<int64_t>(record.tokens.size()) / 2;
    record.targets.assign(middle, record.tokens.end());
    record.tokens.erase(middle, record.tokens.end());
    record.label = 0;
    DataRandom random(seed_, kSentencePairStream, position);
    if (random.Below(2) == 0) return record;
    MTF_ASSIGN_OR_RETURN(const Record other,
                         texts_->At(OtherPosition(position, random)));
    if (other.missing) return record;
    record.targets.assign(
        other.tokens.begin() + static_cast<int64_t>(other.tokens.size()) / 2,
        other.tokens.end());
    record.label = 1;
    return record;
  }
  int64_t epoch_size() const override { return texts_->epoch_size(); }
  BadRecordReport bad_records() const override { return texts_->bad_records(); }

 private:
  // Another position of the epoch, which reads another record.
  int64_t OtherPosition(int64_t position, DataRandom& random) const {
    const int64_t size = texts_->epoch_size(), in_epoch = position % size;
    constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
    const int64_t further =
        1 + random.Below(static_cast<uint32_t>(std::min(size - 1, kMost)));
    return position - in_epoch + (in_epoch + further) % size;
  }

  const std::shared_ptr<const RecordOrder> texts_;
  const uint32_t seed_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const RecordOrder>> SentencePairs(
    std::shared_ptr<const RecordOrder> texts, uint32_t seed) {
  if (texts->epoch_size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sentence pairs need at least 2 texts, and there ",
        texts->epoch_size() == 1 ? "is " : "are ", texts->epoch_size(),
        DetailLine("help", "give more texts")));
  }
  return std::make_shared<PairOrder>(std::move(texts), seed);
}

}  // namespace mtf::train
