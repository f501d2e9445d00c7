// SPDX-License-Identifier: Apache-2.0
#include "train/data/record_batches.h"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/train/data/data_files.h"
#include "train/data/prefetcher.h"
#include "train/data/random_windows.h"
#include "train/data/rows/language_model_rows.h"
#include "train/data/sources/token_windows.h"

namespace mtf::train {
namespace {

using ::mtf::testing::CountingStream;
using ::mtf::testing::RecordList;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

constexpr int64_t kLength = 4;

// `windows` windows of `length` tokens; that of window i begins with i *
// length.
std::shared_ptr<const RecordBatches> Windows(int64_t windows,
                                             RecordBatchesOptions options,
                                             bool weights = false) {
  const auto source = *TokenWindows::Create(
      std::make_shared<CountingStream>(windows * kLength + 1), kLength);
  return *RecordBatches::Create(
      *EpochOrder(source, {.seed = 9}),
      std::make_shared<const LanguageModelRows>(LanguageModelOptions{
          .length = {"length", kLength}, .weights = weights}),
      options);
}

// The numbers of the windows in a batch.
std::vector<int> WindowsOf(const std::map<std::string, HostTensor>& feeds) {
  const HostTensor& tokens = feeds.at("tokens");
  std::vector<int> windows;
  for (int64_t i = 0; i < tokens.num_elements(); i += kLength) {
    windows.push_back(static_cast<int>(*tokens.At(i)) / kLength);
  }
  return windows;
}

TEST(RecordBatches, FeedsHaveTheBatchFirst) {
  const auto batches = Windows(10, {.batch = {"batch", 3}});
  const Shape shape = {{"batch", 3}, {"length", kLength}};
  EXPECT_EQ(batches->feeds(),
            (std::vector<FeedInfo>{{"tokens", shape}, {"targets", shape}}));
  const auto feeds = batches->Batch(0);
  ASSERT_OK(feeds);
  for (const FeedInfo& feed : batches->feeds()) {
    EXPECT_EQ(feeds->at(feed.name).shape(), feed.shape);
    EXPECT_EQ(feeds->at(feed.name).dtype(), feed.dtype);
  }
}

TEST(RecordBatches, TheOrderDoesNotDependOnTheBatch) {
  std::vector<int> expected;
  for (const int64_t batch : {1, 2, 3, 7, 30}) {
    const auto batches = Windows(10, {.batch = {"batch", batch}});
    EXPECT_EQ(batches->batches_per_epoch(), (10 + batch - 1) / batch);
    std::vector<int> drawn;
    for (int64_t step = 0; static_cast<int64_t>(drawn.size()) < 60; ++step) {
      const std::vector<int> windows = WindowsOf(*batches->Batch(step));
      drawn.insert(drawn.end(), windows.begin(), windows.end());
    }
    drawn.resize(60);
    if (expected.empty()) expected = drawn;
    EXPECT_EQ(drawn, expected) << batch;
  }
  // Six epochs of all windows.
  for (int epoch = 0; epoch < 6; ++epoch) {
    const std::set<int> seen(expected.begin() + 10 * epoch,
                             expected.begin() + 10 * epoch + 10);
    EXPECT_EQ(seen.size(), 10);
  }
}

TEST(RecordBatches, RowsAreThoseOfTheBatch) {
  const auto batches = Windows(50, {.batch = {"batch", 7}});
  const std::vector<int> all = WindowsOf(*batches->Batch(3));
  for (int64_t first = 0; first <= 7; ++first) {
    for (int64_t last = first; last <= 7; ++last) {
      EXPECT_EQ(WindowsOf(*batches->Rows(3, first, last)),
                std::vector<int>(all.begin() + first, all.begin() + last));
    }
  }
  EXPECT_THAT(batches->Rows(3, 2, 8),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("rows 2 to 8 of a batch of 7")));
  EXPECT_THAT(batches->Rows(-1, 0, 7),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("step -1")));
  EXPECT_OK(batches->Batch(int64_t{1} << 58));
  EXPECT_THAT(batches->Batch(int64_t{1} << 62),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("no data")));
}

// A run of batches of 4 goes on with batches of 6.
TEST(RecordBatches, GoesOnAtAPositionWithAnotherBatch) {
  const auto whole = Windows(100, {.batch = {"batch", 1}});
  const auto before = Windows(100, {.batch = {"batch", 4}});
  const int64_t position = before->PositionOf(5);
  EXPECT_EQ(position, 20);
  const auto after = Windows(
      100,
      {.batch = {"batch", 6}, .first_step = 5, .first_position = position});
  EXPECT_EQ(after->PositionOf(7), 32);
  const std::vector<int> drawn = WindowsOf(*after->Batch(7));
  for (int64_t row = 0; row < 6; ++row) {
    EXPECT_EQ(drawn[row], WindowsOf(*whole->Batch(32 + row))[0]);
  }
  EXPECT_THAT(after->Batch(4), StatusIs(absl::StatusCode::kOutOfRange,
                                        HasSubstr("data begins at step 5")));
}

TEST(RecordBatches, TheLastBatchOfAnEvaluationIsFilledUp) {
  for (const int64_t batch : {1, 3, 4, 10, 16}) {
    const auto batches =
        Windows(10, {.batch = {"batch", batch}, .once = true}, true);
    std::set<int> seen;
    double weights = 0;
    for (int64_t step = 0; step < batches->batches_per_epoch(); ++step) {
      const auto feeds = batches->Batch(step);
      ASSERT_OK(feeds);
      for (const double weight : feeds->at("weights").ToDoubles()) {
        weights += weight;
      }
      const std::vector<int> windows = WindowsOf(*feeds);
      for (int64_t row = 0; row < batch; ++row) {
        if (*feeds->at("weights").At(row * kLength) == 0) continue;
        EXPECT_TRUE(seen.insert(windows[row]).second);
      }
    }
    EXPECT_EQ(seen.size(), 10);
    EXPECT_EQ(weights, 10 * kLength);
    EXPECT_THAT(batches->Batch(batches->batches_per_epoch()),
                StatusIs(absl::StatusCode::kOutOfRange,
                         HasSubstr("the 10 records make")));
  }
}

TEST(RecordBatches, InvalidOptionsAreErrors) {
  const auto order = *EpochOrder(
      *TokenWindows::Create(std::make_shared<CountingStream>(100), kLength));
  const auto created = [&](RecordBatchesOptions options) {
    return RecordBatches::Create(
        order,
        std::make_shared<const LanguageModelRows>(
            LanguageModelOptions{.length = {"length", kLength}}),
        options);
  };
  const auto is_invalid = [](const char* text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
  };
  EXPECT_THAT(created({}), is_invalid("a batch of 0 records"));
  EXPECT_THAT(created({.batch = {"batch", 2}, .once = true}),
              is_invalid("needs weights"));
  EXPECT_THAT(created({.batch = {"length", 2}}), is_invalid("length"));
  EXPECT_THAT(created({.batch = {"batch", 2}, .first_position = -1}),
              is_invalid("position -1"));
}

// Prefetched by several threads, the batches are the same.
TEST(RecordBatches, PrefetchedBatchesAreTheSame) {
  const auto batches = Windows(33, {.batch = {"batch", 5}});
  for (const int workers : {1, 4}) {
    Prefetcher prefetcher(
        [&](int64_t step) -> absl::StatusOr<StepFeeds> {
          absl::StatusOr<std::map<std::string, HostTensor>> feeds =
              batches->Batch(step);
          if (!feeds.ok()) return feeds.status();
          return StepFeeds{.feeds = *std::move(feeds)};
        },
        {.workers = workers, .ahead = 4});
    for (int64_t step = 0; step < 40; ++step) {
      const auto feeds = prefetcher.Next();
      ASSERT_OK(feeds);
      EXPECT_EQ(feeds->feeds, *batches->Batch(step));
    }
  }
}

TEST(RandomWindows, DependOnSeedStepAndRow) {
  const auto stream = std::make_shared<CountingStream>(1000);
  const auto first = [&](uint32_t seed, int64_t step) {
    const auto windows =
        *RandomWindows::Create(stream, {"batch", 4}, {"length", 16}, seed);
    return windows->Batch(step)->at("tokens");
  };
  EXPECT_TRUE(first(1, 2) == first(1, 2));
  EXPECT_FALSE(first(1, 2) == first(2, 2));
  EXPECT_FALSE(first(1, 2) == first(1, 3));
  EXPECT_NE(*first(1, 2).At(0), *first(1, 2).At(16));

  const auto windows =
      *RandomWindows::Create(stream, {"batch", 4}, {"length", 16}, 1);
  EXPECT_EQ(windows->batches_per_epoch(), 0);
  const auto batch = windows->Batch(2);
  const auto rows = windows->Rows(2, 1, 3);
  ASSERT_OK(rows);
  for (int64_t i = 0; i < 32; ++i) {
    const double token = *batch->at("tokens").At(16 + i);
    EXPECT_EQ(*rows->at("tokens").At(i), token);
    EXPECT_EQ(*rows->at("targets").At(i), token + 1);
  }
}

TEST(RandomWindows, AStreamOfOneWindowHasOneBatch) {
  const auto stream = std::make_shared<CountingStream>(17);
  const auto windows =
      RandomWindows::Create(stream, {"batch", 1}, {"length", 16}, 0);
  ASSERT_OK(windows);
  EXPECT_EQ(*(*windows)->Batch(0)->at("targets").At(15), 16);
  EXPECT_THAT(RandomWindows::Create(stream, {"batch", 1}, {"length", 17}, 0),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("numbers has 17 tokens, but a window of "
                                 "length 17 needs 18")));
}

}  // namespace
}  // namespace mtf::train
