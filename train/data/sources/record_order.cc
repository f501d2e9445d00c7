// SPDX-License-Identifier: Apache-2.0
#include "train/data/sources/record_order.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "train/data/sources/permutation.h"

namespace mtf::train {
namespace {

constexpr int64_t kMostReplaced = 1000;
constexpr int64_t kPatternPositions = 1 << 16;

class EpochRecordOrder final : public RecordOrder {
 public:
  EpochRecordOrder(std::shared_ptr<const RecordSource> source,
                   EpochOrderOptions options)
      : source_(std::move(source)), options_(options) {}

  absl::StatusOr<Record> At(int64_t position) const override {
    const int64_t size = source_->size();
    const int64_t epoch = position / size;
    int64_t index = position % size;
    if (options_.shuffle) {
      index = Permutation(size, options_.seed, static_cast<uint32_t>(epoch))
                  .At(index);
    }
    return ReadGood(index);
  }

  int64_t epoch_size() const override { return source_->size(); }
  BadRecordReport bad_records() const override { return bad_.report(); }

 private:
  // What stands for record `index`, a function of the index alone.
  absl::StatusOr<Record> ReadGood(int64_t index) const {
    const int64_t tries = std::min(source_->size(), kMostReplaced);
    for (int64_t i = 0; i < tries; ++i) {
      const int64_t candidate = (index + i) % source_->size();
      absl::StatusOr<Record> record = source_->Read(candidate);
      if (record.ok() || !absl::IsDataLoss(record.status()) ||
          options_.on_bad_record == OnBadRecord::kFail) {
        return record;
      }
      bad_.Add(candidate, record.status());
      if (options_.on_bad_record == OnBadRecord::kOmit) {
        return Record{.missing = true};
      }
    }
    return absl::DataLossError(absl::StrCat(
        "no good record follows ", source_->NameOf(index), ": ",
        Plural(tries, "record"), " in a row are bad",
        DetailLine("first", bad_.report().first.front()),
        DetailLine("help", "check the format that the file is read as")));
  }

  const std::shared_ptr<const RecordSource> source_;
  const EpochOrderOptions options_;
  mutable BadRecordLog bad_;
};

// The order that a position of the pattern belongs to, and how many earlier
// positions of the pattern do.
struct PatternPosition {
  int32_t order = 0;
  int32_t before = 0;
};

class MixedRecordOrder final : public RecordOrder {
 public:
  MixedRecordOrder(std::vector<WeightedOrder> orders,
                   std::vector<PatternPosition> pattern,
                   std::vector<int64_t> counts)
      : orders_(std::move(orders)),
        pattern_(std::move(pattern)),
        counts_(std::move(counts)) {
    for (int64_t i = 0; i < kPatternPositions; ++i) {
      // The position of the last record of an epoch of this order, if it is at
      // this place of the pattern.
      const int64_t last = orders_[pattern_[i].order].order->epoch_size() - 1;
      const int64_t count = counts_[pattern_[i].order];
      if (last % count != pattern_[i].before) continue;
      epoch_size_ =
          std::max(epoch_size_, last / count * kPatternPositions + i + 1);
    }
  }

  absl::StatusOr<Record> At(int64_t position) const override {
    const PatternPosition& at = pattern_[position % kPatternPositions];
    const int64_t turn = position / kPatternPositions;
    return orders_[at.order].order->At(turn * counts_[at.order] + at.before);
  }

  int64_t epoch_size() const override { return epoch_size_; }

  BadRecordReport bad_records() const override {
    BadRecordReport report;
    for (const WeightedOrder& order : orders_) {
      report.Append(order.order->bad_records());
    }
    return report;
  }

 private:
  const std::vector<WeightedOrder> orders_;
  const std::vector<PatternPosition> pattern_;
  const std::vector<int64_t> counts_;  // by order: its positions in the pattern
  int64_t epoch_size_ = 0;
};

absl::StatusOr<double> SumOfWeights(const std::vector<WeightedOrder>& orders) {
  double sum = 0;
  for (const WeightedOrder& order : orders) {
    if (!(order.weight > 0) || !std::isfinite(order.weight)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the weight of data set ", &order - orders.data(),
          " of a mixture is ", order.weight,
          DetailLine("help", "give positive weights, or leave it out")));
    }
    sum += order.weight;
  }
  for (const WeightedOrder& order : orders) {
    if (order.weight * kPatternPositions < sum) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the weight of data set ", &order - orders.data(),
          " of a mixture is ", order.weight, " of ", sum, ", less than 1/",
          kPatternPositions,
          DetailLine("help", "give it more weight, or leave it out")));
    }
  }
  return sum;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const RecordOrder>> EpochOrder(
    std::shared_ptr<const RecordSource> source, EpochOrderOptions options) {
  if (source->size() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the data set has no records",
                     DetailLine("help", "name files that have some")));
  }
  return std::make_shared<const EpochRecordOrder>(std::move(source), options);
}

absl::StatusOr<std::shared_ptr<const RecordOrder>> MixedOrder(
    std::vector<WeightedOrder> orders) {
  if (orders.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a mixture of no data sets", DetailLine("help", "give at least one")));
  }
  MTF_ASSIGN_OR_RETURN(const double sum, SumOfWeights(orders));
  std::vector<PatternPosition> pattern(kPatternPositions);
  std::vector<int64_t> counts(orders.size());
  for (int64_t i = 0; i < kPatternPositions; ++i) {
    size_t chosen = 0;
    double most = -1;
    for (size_t j = 0; j < orders.size(); ++j) {
      // What the order should have after this position, less what it has.
      const double lag =
          orders[j].weight / sum * static_cast<double>(i + 1) - counts[j];
      if (lag > most) {
        most = lag;
        chosen = j;
      }
    }
    pattern[i] = {static_cast<int32_t>(chosen),
                  static_cast<int32_t>(counts[chosen]++)};
  }
  for (size_t j = 0; j < orders.size(); ++j) {
    // Rounding may leave an order of the least weight without a position.
    if (counts[j] == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the weight of data set ", j, " of a mixture is too small",
          DetailLine("help", "give it more weight, or leave it out")));
    }
  }
  return std::make_shared<const MixedRecordOrder>(
      std::move(orders), std::move(pattern), std::move(counts));
}

}  // namespace mtf::train
