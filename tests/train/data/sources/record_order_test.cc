// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include "train/data/sources/record_order.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "train/data/sources/permutation.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Records of one token, base + index; those in `bad` are damaged.
class Numbers final : public RecordSource {
 public:
  explicit Numbers(int64_t size, int32_t base = 0, std::set<int64_t> bad = {})
      : size_(size), base_(base), bad_(std::move(bad)) {}
  int64_t size() const override { return size_; }
  absl::StatusOr<Record> Read(int64_t index) const override {
    if (bad_.contains(index)) {
      return absl::DataLossError(absl::StrCat(NameOf(index), ": torn"));
    }
    return Record{.tokens = {base_ + static_cast<int32_t>(index)}};
  }
  std::string NameOf(int64_t index) const override {
    return absl::StrCat("numbers:", index);
  }

 private:
  const int64_t size_;
  const int32_t base_;
  const std::set<int64_t> bad_;
};

std::shared_ptr<const RecordOrder> OrderOf(const Numbers& numbers,
                                           EpochOrderOptions options) {
  return *EpochOrder(std::make_shared<Numbers>(numbers), options);
}

std::vector<int> Drawn(const RecordOrder& order, int64_t first, int64_t last) {
  std::vector<int> drawn;
  for (int64_t position = first; position < last; ++position) {
    const absl::StatusOr<Record> record = order.At(position);
    drawn.push_back(record.ok() && !record->missing ? record->tokens[0] : -1);
  }
  return drawn;
}

TEST(Permutation, EverySizeUpTo300IsPermuted) {
  for (int64_t size = 1; size <= 300; ++size) {
    for (const uint32_t epoch : {0u, 1u, 77u}) {
      const Permutation order(size, 5, epoch);
      std::vector<bool> seen(size);
      for (int64_t i = 0; i < size; ++i) {
        const int64_t at = order.At(i);
        ASSERT_GE(at, 0);
        ASSERT_LT(at, size);
        ASSERT_FALSE(seen[at]) << size << " at " << i;
        seen[at] = true;
      }
    }
  }
}

TEST(Permutation, LargeRangesAreReachedAnywhere) {
  constexpr int64_t kSize = (int64_t{1} << 61) + 12345;
  const Permutation order(kSize, 5, 9);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t at = order.At(kSize - 1 - i * 1234567891);
    ASSERT_GE(at, 0);
    ASSERT_LT(at, kSize);
    EXPECT_TRUE(seen.insert(at).second);
  }
  // About half are in each half: within 6 standard deviations of 16.
  EXPECT_NEAR(std::distance(seen.begin(), seen.lower_bound(kSize / 2)), 500,
              96);
}

// The element at an index takes every value about equally often over epochs: a
// chi-squared test with 99 degrees of freedom, whose mean is 99 and standard
// deviation 14.
TEST(Permutation, EpochsDifferAndAreUniform) {
  constexpr int64_t kSize = 100, kEpochs = 5000;
  for (const int64_t index : {0, 1, 57, 99}) {
    std::vector<int64_t> counts(kSize);
    int64_t followed = 0;
    for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const Permutation order(kSize, 3, static_cast<uint32_t>(epoch));
      ++counts[order.At(index)];
      const int64_t next = order.At((index + 1) % kSize);
      followed += (order.At(index) + 1) % kSize == next;
    }
    double chi = 0;
    for (const int64_t count : counts) {
      chi += std::pow(count - kEpochs / kSize, 2) / (kEpochs / kSize);
    }
    EXPECT_NEAR(chi, 99, 6 * 14) << index;
    // Neighbours stay neighbours in about one of 99 epochs.
    EXPECT_NEAR(followed, kEpochs / 99, 6 * std::sqrt(kEpochs / 99));
  }
}

TEST(EpochOrder, ReadsEachRecordOnceInAnEpoch) {
  const auto order = OrderOf(Numbers(10), {.seed = 3});
  EXPECT_EQ(order->epoch_size(), 10);
  std::vector<std::vector<int>> epochs;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    epochs.push_back(Drawn(*order, 10 * epoch, 10 * epoch + 10));
    EXPECT_THAT(epochs.back(),
                ::testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  // Another seed is another order, and the same seed the same.
  EXPECT_NE(Drawn(*OrderOf(Numbers(10), {.seed = 4}), 0, 10), epochs[0]);
  EXPECT_EQ(Drawn(*OrderOf(Numbers(10), {.seed = 3}), 10, 20), epochs[1]);
}

TEST(EpochOrder, KeepsTheOrderOfTheFileWithoutShuffling) {
  const auto order = OrderOf(Numbers(3), {.shuffle = false});
  EXPECT_THAT(Drawn(*order, 0, 7), ElementsAre(0, 1, 2, 0, 1, 2, 0));
}

TEST(EpochOrder, BadRecordsFailOrAreReplacedOrOmitted) {
  const Numbers numbers(5, 0, {1, 2, 4});
  const auto fails = OrderOf(numbers, {.shuffle = false});
  EXPECT_OK(fails->At(0));
  EXPECT_THAT(fails->At(1), StatusIs(absl::StatusCode::kDataLoss,
                                     HasSubstr("numbers:1: torn")));

  const auto replaces = OrderOf(
      numbers, {.shuffle = false, .on_bad_record = OnBadRecord::kReplace});
  EXPECT_THAT(Drawn(*replaces, 0, 5), ElementsAre(0, 3, 3, 3, 0));
  EXPECT_THAT(Drawn(*replaces, 5, 10), ElementsAre(0, 3, 3, 3, 0));
  // Each is counted once, however often it was read.
  EXPECT_EQ(replaces->bad_records().count, 3);
  EXPECT_EQ(replaces->bad_records().ToString(),
            "3 bad records\n  numbers:1: torn\n  numbers:2: torn\n"
            "  numbers:4: torn");

  const auto omits =
      OrderOf(numbers, {.shuffle = false, .on_bad_record = OnBadRecord::kOmit});
  EXPECT_THAT(Drawn(*omits, 0, 5), ElementsAre(0, -1, -1, 3, -1));
  EXPECT_TRUE(omits->At(1)->missing);
}

TEST(EpochOrder, ASourceWithoutGoodRecordsIsAnError) {
  const auto order = OrderOf(Numbers(3, 0, {0, 1, 2}),
                             {.on_bad_record = OnBadRecord::kReplace});
  EXPECT_THAT(order->At(0), StatusIs(absl::StatusCode::kDataLoss,
                                     HasSubstr("3 records in a row are bad")));
  EXPECT_THAT(EpochOrder(std::make_shared<Numbers>(0)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the data set has no records")));
}

TEST(MixedOrder, EveryStretchHasThePartsAskedFor) {
  const std::vector<double> weights = {1, 2, 0.5};
  std::vector<WeightedOrder> orders;
  for (int i = 0; i < 3; ++i) {
    orders.push_back(
        {OrderOf(Numbers(1000000, i * 1000000), {.shuffle = false}),
         weights[i]});
  }
  const auto mixed = *MixedOrder(orders);
  std::vector<int64_t> counts(3);
  for (int64_t position = 0; position < 70000; ++position) {
    const int token = mixed->At(position)->tokens[0];
    const int which = token / 1000000;
    // Each order is read in its own order, without gaps.
    ASSERT_EQ(token % 1000000, counts[which]);
    ++counts[which];
    for (int i = 0; i < 3; ++i) {
      ASSERT_NEAR(counts[i], (position + 1) * weights[i] / 3.5, 2);
    }
  }
}

TEST(MixedOrder, AnEpochReadsEveryRecord) {
  const auto mixed = *MixedOrder({{OrderOf(Numbers(3), {.seed = 1}), 1},
                                  {OrderOf(Numbers(50, 100), {.seed = 2}), 1}});
  EXPECT_EQ(mixed->epoch_size(), 100);
  const std::vector<int> drawn = Drawn(*mixed, 0, 100);
  const std::set<int> seen(drawn.begin(), drawn.end());
  EXPECT_EQ(seen.size(), 53);
  // Of one order alone, an epoch is its epoch.
  EXPECT_EQ((*MixedOrder({{OrderOf(Numbers(7), {}), 2}}))->epoch_size(), 7);
}

TEST(MixedOrder, InvalidWeightsAreErrors) {
  const auto order = OrderOf(Numbers(3), {});
  EXPECT_THAT(MixedOrder({}), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("no data sets")));
  for (const double weight : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    EXPECT_THAT(MixedOrder({{order, 1}, {order, weight}}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("the weight of data set 1")));
  }
  EXPECT_THAT(MixedOrder({{order, 1e-6}, {order, 1}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("less than 1/65536")));
}

}  // namespace
}  // namespace mtf::train
