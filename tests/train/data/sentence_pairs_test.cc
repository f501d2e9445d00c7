// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include "train/data/sentence_pairs.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/train/data/data_files.h"

namespace mtf::train {
namespace {

using ::mtf::testing::RecordList;
using ::mtf::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// `size` texts 10 i, 10 i + 1, .. 10 i + 4, in their order.
std::shared_ptr<const RecordOrder> Texts(int size) {
  std::vector<Record> records;
  for (int32_t i = 0; i < size; ++i) {
    const int32_t first = 10 * i;
    records.push_back(
        {.tokens = {first, first + 1, first + 2, first + 3, first + 4}});
  }
  const auto order =
      EpochOrder(std::make_shared<RecordList>(records), {.shuffle = false});
  EXPECT_OK(order);
  return *order;
}

TEST(SentencePairs, HalfOfThemAreOfOtherTexts) {
  constexpr int kTexts = 200;
  const auto pairs = SentencePairs(Texts(kTexts), 3);
  ASSERT_OK(pairs);
  EXPECT_EQ((*pairs)->epoch_size(), kTexts);
  int others = 0, differ = 0;
  for (int64_t position = 0; position < 2 * kTexts; ++position) {
    const auto record = (*pairs)->At(position), again = (*pairs)->At(position);
    ASSERT_OK(record);
    ASSERT_OK(again);
    EXPECT_EQ(record->targets, again->targets);
    const auto first = static_cast<int32_t>(10 * (position % kTexts));
    EXPECT_THAT(record->tokens, ElementsAre(first, first + 1));
    ASSERT_EQ(record->targets.size(), 3u);
    const int32_t second = record->targets[0];
    EXPECT_EQ(second % 10, 2);
    EXPECT_EQ(record->targets[2], second + 2);
    EXPECT_EQ(record->label, second == first + 2 ? 0 : 1);
    others += record->label;
    const auto epoch = (*pairs)->At((position + kTexts) % (2 * kTexts));
    ASSERT_OK(epoch);
    differ += epoch->targets != record->targets;
  }
  // Within 6 standard deviations of a half of 400.
  EXPECT_NEAR(others, kTexts, 60);
  EXPECT_GT(differ, kTexts);  // epochs have other pairs
}

TEST(SentencePairs, TwoTextsReplaceEachOther) {
  const auto pairs = SentencePairs(Texts(2), 1);
  ASSERT_OK(pairs);
  for (int64_t position = 0; position < 50; ++position) {
    const auto record = (*pairs)->At(position);
    ASSERT_OK(record);
    const int64_t text = record->label == 0 ? position % 2 : 1 - position % 2;
    EXPECT_EQ(record->targets[0], 10 * text + 2) << position;
  }
  EXPECT_THAT(SentencePairs(Texts(1), 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("at least 2 texts, and there is 1")));
}

}  // namespace
}  // namespace mtf::train
