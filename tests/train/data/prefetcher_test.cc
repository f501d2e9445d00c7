// SPDX-License-Identifier: Apache-2.0
#include "train/data/prefetcher.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mtf/philox.h"
#include "tests/matchers.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

StepFeeds Number(int64_t value) {
  StepFeeds feeds;
  feeds.feeds.emplace("x", HostTensor::Of<int64_t>({}, {value}));
  return feeds;
}

int64_t NumberOf(const StepFeeds& feeds) {
  return (*feeds.feeds.at("x").values<int64_t>())[0];
}

// Counts calls; others can wait until so many have begun or ended.
class EventCount {
 public:
  void Add() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  void WaitFor(int64_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return count_ >= count; });
  }
  int64_t count() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t count_ = 0;
};

TEST(Prefetcher, AnyNumberOfWorkersReturnsTheSameStepsInOrder) {
  for (const int workers : {1, 2, 3, 8}) {
    for (const int ahead : {1, 2, 5}) {
      Prefetcher prefetcher(
          [](int64_t step) -> absl::StatusOr<StepFeeds> {
            // Calls end in another order than they began.
            if (PhiloxAt(1, 2, 3, step).word[0] % 2 == 0) {
              std::this_thread::yield();
            }
            return Number(step * step);
          },
          {.first_step = 7, .workers = workers, .ahead = ahead});
      for (int64_t step = 7; step < 57; ++step) {
        EXPECT_EQ(prefetcher.next_step(), step);
        const auto feeds = prefetcher.Next();
        ASSERT_OK(feeds);
        ASSERT_EQ(NumberOf(*feeds), step * step);
      }
      EXPECT_EQ(prefetcher.counts().steps, 50);
      EXPECT_LE(prefetcher.counts().most_held, ahead);
    }
  }
}

// The step waits until the reader has begun and ended the next one, which it
// could not if readers ran between steps only.
TEST(Prefetcher, ReadsTheNextStepsWhileAStepRuns) {
  EventCount begun, ended;
  Prefetcher prefetcher(
      [&](int64_t step) -> absl::StatusOr<StepFeeds> {
        begun.Add();
        ended.Add();
        return Number(step);
      },
      {.ahead = 2});
  for (int64_t step = 0; step < 20; ++step) {
    ASSERT_OK(prefetcher.Next());
    ended.WaitFor(step + 3);  // this one, and two steps ahead
  }
  EXPECT_EQ(begun.count(), 22);
  // Only the first step can have been waited for.
  EXPECT_LE(prefetcher.counts().waits, 1);
}

TEST(Prefetcher, ReadsNoFurtherAheadThanItIsTold) {
  EventCount begun;
  Prefetcher prefetcher(
      [&](int64_t step) -> absl::StatusOr<StepFeeds> {
        begun.Add();
        return Number(step);
      },
      {.workers = 8, .ahead = 3});
  begun.WaitFor(3);
  ASSERT_OK(prefetcher.Next());
  begun.WaitFor(4);
  // A fifth call would be a fault; it has the time of these yields to show.
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  EXPECT_EQ(begun.count(), 4);
}

TEST(Prefetcher, AnErrorArrivesAtItsStep) {
  for (const int workers : {1, 4}) {
    Prefetcher prefetcher(
        [](int64_t step) -> absl::StatusOr<StepFeeds> {
          if (step == 2) return absl::DataLossError("train.jsonl:17 is bad");
          return Number(step);
        },
        {.workers = workers, .ahead = 4});
    ASSERT_OK(prefetcher.Next());
    ASSERT_OK(prefetcher.Next());
    EXPECT_THAT(prefetcher.Next(), StatusIs(absl::StatusCode::kDataLoss,
                                            HasSubstr("train.jsonl:17")));
    EXPECT_EQ(NumberOf(*prefetcher.Next()), 3);
  }
}

TEST(Prefetcher, ExceptionsBecomeStatuses) {
  Prefetcher prefetcher([](int64_t step) -> absl::StatusOr<StepFeeds> {
    if (step == 0) throw std::bad_alloc();
    throw std::runtime_error("a reader of the user");
  });
  EXPECT_THAT(prefetcher.Next(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("")));
  EXPECT_THAT(prefetcher.Next(), StatusIs(absl::StatusCode::kInternal,
                                          HasSubstr("a reader of the user")));
}

TEST(Prefetcher, ReadsNoStepFromTheEndOn) {
  std::atomic<int64_t> last = 0;
  Prefetcher prefetcher(
      [&](int64_t step) -> absl::StatusOr<StepFeeds> {
        int64_t known = last;
        while (known < step && !last.compare_exchange_weak(known, step)) {
        }
        return Number(step);
      },
      {.end_step = 3, .workers = 2, .ahead = 8});
  for (int i = 0; i < 3; ++i) ASSERT_OK(prefetcher.Next());
  EXPECT_THAT(prefetcher.Next(),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("step 3 is not read: the last step is 2")));
  EXPECT_EQ(last, 2);
}

// The destructor returns although steps ahead were never asked for, while
// readers are at work, and starts no others.
TEST(Prefetcher, EndsWithStepsLeft) {
  for (int i = 0; i < 50; ++i) {
    EventCount begun;
    auto prefetcher = std::make_unique<Prefetcher>(
        [&](int64_t step) -> absl::StatusOr<StepFeeds> {
          begun.Add();
          return Number(step);
        },
        PrefetchOptions{.workers = 3, .ahead = 4});
    if (i % 2 == 0) begun.WaitFor(1 + i % 4);
    if (i % 3 == 0) {
      ASSERT_OK(prefetcher->Next());
    }
    prefetcher.reset();
    EXPECT_LE(begun.count(), 5);
  }
}

}  // namespace
}  // namespace mtf::train
