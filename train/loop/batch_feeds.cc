// SPDX-License-Identifier: Apache-2.0
#include "train/loop/batch_feeds.h"

#include <algorithm>
#include <utility>

#include "mtf/status.h"

namespace mtf::train {

absl::StatusOr<BatchFeeds::Feeds> BatchFeeds::Read(int64_t batch,
                                                   int64_t count) {
  const Reading& reading = training_.reading;
  if (reading.threads == 0) return training_.feeds(batch);
  if (prefetcher_ == nullptr || prefetcher_->next_step() != batch ||
      batch >= end_) {
    Stop();
    end_ = batch + std::max<int64_t>(count, 1);
    prefetcher_ = std::make_unique<Prefetcher>(
        [this](int64_t number) -> absl::StatusOr<StepFeeds> {
          StepFeeds step;
          MTF_ASSIGN_OR_RETURN(step.feeds, training_.feeds(number));
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
