// SPDX-License-Identifier: Apache-2.0
#include "train/loop/batch_feeds.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/status.h"

namespace mtf::train {
namespace {

// The rows of the trace.
constexpr absl::string_view kLoop = "training loop", kReader = "reader";

}  // namespace

absl::StatusOr<BatchFeeds::Feeds> BatchFeeds::Read(int64_t batch,
                                                   int64_t count) {
  const HostTrace::Clock::time_point begin = HostTrace::Clock::now();
  absl::StatusOr<Feeds> feeds = training_.reading.threads == 0
                                    ? ReadTraced(batch, kLoop)
                                    : ReadAhead(batch, count);
  trace_.Add(kLoop, absl::StrCat("wait for batch ", batch), begin,
             HostTrace::Clock::now());
  return feeds;
}

absl::StatusOr<BatchFeeds::Feeds> BatchFeeds::ReadTraced(
    int64_t batch, absl::string_view thread) {
  const HostTrace::Clock::time_point begin = HostTrace::Clock::now();
  absl::StatusOr<Feeds> feeds = training_.feeds(batch);
  trace_.Add(thread, absl::StrCat("read batch ", batch), begin,
             HostTrace::Clock::now());
  return feeds;
}

absl::StatusOr<BatchFeeds::Feeds> BatchFeeds::ReadAhead(int64_t batch,
                                                        int64_t count) {
  const Reading& reading = training_.reading;
  if (prefetcher_ == nullptr || prefetcher_->next_step() != batch ||
      batch >= end_) {
    Stop();
    end_ = batch + std::max<int64_t>(count, 1);
    prefetcher_ = std::make_unique<Prefetcher>(
        [this](int64_t number) -> absl::StatusOr<StepFeeds> {
          StepFeeds step;
          MTF_ASSIGN_OR_RETURN(step.feeds, ReadTraced(number, kReader));
          return step;
        },
        PrefetchOptions{.first_step = batch,
                        .end_step = end_,
                        .workers = static_cast<int>(reading.threads),
                        .ahead = static_cast<int>(
                            std::max(reading.ahead, reading.threads))});
  }
  MTF_ASSIGN_OR_RETURN(StepFeeds step, prefetcher_->Next());
  return std::move(step.feeds);
}

}  // namespace mtf::train
