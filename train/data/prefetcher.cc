// SPDX-License-Identifier: Apache-2.0
#include "train/data/prefetcher.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/exceptions.h"

namespace mtf::train {
namespace {

using PrefetchClock = std::chrono::steady_clock;

// What `read` returns for `step`; an exception as its Status.
absl::StatusOr<StepFeeds> ReadStep(const Prefetcher::Read& read, int64_t step) {
  absl::StatusOr<StepFeeds> feeds = StepFeeds();
  const absl::Status status = CatchExceptions([&] {
    feeds = read(step);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return feeds;
}

}  // namespace

Prefetcher::Prefetcher(Read read, PrefetchOptions options)
    : read_(std::move(read)),
      options_(options),
      next_(options.first_step),
      unclaimed_(options.first_step) {
  const int workers = std::max(options.workers, 1);
  workers_.reserve(workers);
  for (int i = 0; i < workers; ++i) {
    // With fewer threads than asked for the feeds are the same; with none, Next
    // reads by itself.
    const absl::Status started = CatchExceptions([&] {
      workers_.emplace_back([this] { Work(); });
      return absl::OkStatus();
    });
    if (!started.ok()) break;
  }
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Prefetcher::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    // A step that Next waits for is always within the bound.
    work_.wait(lock, [&] {
      return stopping_ || (unclaimed_ < options_.end_step &&
                           unclaimed_ - next_ < std::max(options_.ahead, 1));
    });
    if (stopping_) return;
    const int64_t step = unclaimed_++;
    lock.unlock();
    absl::StatusOr<StepFeeds> feeds = ReadStep(read_, step);
    lock.lock();
    finished_.emplace(step, std::move(feeds));
    counts_.most_held =
        std::max(counts_.most_held, static_cast<int64_t>(finished_.size()));
    done_.notify_all();
  }
}

absl::StatusOr<StepFeeds> Prefetcher::Next() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (next_ >= options_.end_step) {
    return absl::OutOfRangeError(absl::StrCat(
        "step ", next_, " is not read: the last step is ",
        options_.end_step - 1,
        DetailLine("help", "give PrefetchOptions a later end_step")));
  }
  if (workers_.empty()) {
    ++counts_.steps;
    ++counts_.waits;
    return ReadStep(read_, next_++);
  }
  auto step = finished_.find(next_);
  if (step == finished_.end()) {
    ++counts_.waits;
    const PrefetchClock::time_point begin = PrefetchClock::now();
    done_.wait(lock, [&] {
      step = finished_.find(next_);
      return step != finished_.end();
    });
    const std::chrono::duration<double> waited = PrefetchClock::now() - begin;
    counts_.waited_s += waited.count();
  }
  absl::StatusOr<StepFeeds> feeds = std::move(step->second);
  finished_.erase(step);
  ++next_;
  ++counts_.steps;
  lock.unlock();
  work_.notify_all();
  return feeds;
}

int64_t Prefetcher::next_step() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return next_;
}

PrefetchCounts Prefetcher::counts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counts_;
}

}  // namespace mtf::train
