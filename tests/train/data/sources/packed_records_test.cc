// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include "train/data/sources/packed_records.h"

#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mtf/philox.h"
#include "tests/matchers.h"
#include "tests/train/data/data_files.h"

namespace mtf::train {
namespace {

using ::mtf::testing::RecordList;
using ::mtf::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Texts of these sizes; token j of text i is 1000 i + j.
std::shared_ptr<const RecordList> TextsOf(const std::vector<int>& sizes) {
  std::vector<Record> records;
  for (size_t i = 0; i < sizes.size(); ++i) {
    Record record;
    for (int j = 0; j < sizes[i]; ++j) {
      record.tokens.push_back(static_cast<int32_t>(1000 * i) + j);
    }
    records.push_back(std::move(record));
  }
  return std::make_shared<const RecordList>(std::move(records));
}

std::vector<int> RandomSizes(int count, int most, uint32_t seed) {
  std::vector<int> sizes;
  for (int i = 0; i < count; ++i) {
    sizes.push_back(static_cast<int>(PhiloxAt(seed, 0, 0, i).word[0] % most));
  }
  return sizes;
}

TEST(PackedRecords, SegmentsAreNumberedAndPositionsRestart) {
  const auto packed = PackedRecords::Create(TextsOf({3, 2, 4}), {.length = 6});
  ASSERT_OK(packed);
  ASSERT_EQ((*packed)->size(), 2);
  const auto row = (*packed)->Read(0);
  ASSERT_OK(row);
  EXPECT_THAT(row->tokens, ElementsAre(0, 1, 2, 1000, 1001));
  EXPECT_THAT(row->segments, ElementsAre(1, 1, 1, 2, 2));
  EXPECT_THAT(row->positions, ElementsAre(0, 1, 2, 0, 1));
  EXPECT_EQ((*packed)->NameOf(0), "list:0 packed with 1 more");
}

TEST(PackedRecords, EveryTokenIsInOneRowAndInItsOrder) {
  for (const int length : {2, 3, 7, 32, 100}) {
    for (const int open_rows : {1, 3, 64}) {
      const std::vector<int> sizes = RandomSizes(300, 80, length);
      const auto packed = PackedRecords::Create(
          TextsOf(sizes), {.length = length, .open_rows = open_rows});
      ASSERT_OK(packed);
      std::set<int32_t> seen;
      for (int64_t i = 0; i < (*packed)->size(); ++i) {
        const auto row = (*packed)->Read(i);
        ASSERT_OK(row);
        ASSERT_LE(row->tokens.size(), length);
        ASSERT_GE(row->tokens.size(), 2);
        for (size_t j = 0; j < row->tokens.size(); ++j) {
          ASSERT_TRUE(seen.insert(row->tokens[j]).second);
          // Within a segment, tokens of one text follow one another.
          if (j > 0 && row->segments[j] == row->segments[j - 1]) {
            ASSERT_EQ(row->tokens[j], row->tokens[j - 1] + 1);
            ASSERT_EQ(row->positions[j], row->positions[j - 1] + 1);
          } else {
            ASSERT_EQ(row->segments[j], j == 0 ? 1 : row->segments[j - 1] + 1);
            ASSERT_EQ(row->positions[j], 0);
          }
        }
      }
      // All tokens, but a single one at the end of a text, which has no target.
      int64_t expected = 0;
      for (const int size : sizes) {
        expected += size - (size % length == 1 ? 1 : 0);
      }
      EXPECT_EQ(seen.size(), expected);
    }
  }
}

TEST(PackedRecords, RowsAreNearlyFull) {
  const std::vector<int> sizes = RandomSizes(2000, 200, 5);
  const auto packed = PackedRecords::Create(TextsOf(sizes), {.length = 256});
  ASSERT_OK(packed);
  int64_t tokens = 0;
  for (int64_t i = 0; i < (*packed)->size(); ++i) {
    tokens += static_cast<int64_t>((*packed)->Read(i)->tokens.size());
  }
  EXPECT_GT(tokens, (*packed)->size() * 256 * 97 / 100);
}

TEST(PackedRecords, LongTextsAreSplitOrCut) {
  const auto split = PackedRecords::Create(TextsOf({10}), {.length = 4});
  ASSERT_EQ((*split)->size(), 3);
  EXPECT_THAT((*split)->Read(1)->tokens, ElementsAre(4, 5, 6, 7));
  const auto cut =
      PackedRecords::Create(TextsOf({10}), {.length = 4, .split_long = false});
  ASSERT_EQ((*cut)->size(), 1);
  EXPECT_THAT((*cut)->Read(0)->tokens, ElementsAre(0, 1, 2, 3));
}

// Every other record is damaged.
class HalfBad final : public RecordSource {
 public:
  int64_t size() const override { return 6; }
  absl::StatusOr<Record> Read(int64_t index) const override {
    if (index % 2 == 1) return absl::DataLossError("torn");
    return Record{.tokens = {1, 2}};
  }
  std::string NameOf(int64_t) const override { return "half"; }
};

TEST(PackedRecords, BadRecordsFailOrAreLeftOut) {
  const auto texts = std::make_shared<const HalfBad>();
  EXPECT_THAT(PackedRecords::Create(texts, {.length = 4}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("torn")));
  const auto packed =
      PackedRecords::Create(texts, {.length = 4, .skip_bad_records = true});
  ASSERT_OK(packed);
  EXPECT_EQ((*packed)->size(), 2);
  EXPECT_EQ((*packed)->bad_records().count, 3);
}

TEST(PackedRecords, InvalidOptionsAreErrors) {
  EXPECT_THAT(PackedRecords::Create(TextsOf({3}), {.length = 1}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("rows of 1 tokens")));
  EXPECT_THAT(
      PackedRecords::Create(TextsOf({3}), {.length = 4, .open_rows = 0}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("into 0 open rows")));
}

}  // namespace
}  // namespace mtf::train
