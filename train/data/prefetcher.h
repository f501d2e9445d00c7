// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_PREFETCHER_H_
#define TRAIN_DATA_PREFETCHER_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "mtf/host_tensor.h"
#include "train/data/feed_shards.h"

namespace mtf::train {

// The feeds of a step: global tensors, shards, or some of each.
struct StepFeeds {
  std::map<std::string, HostTensor> feeds = {};
  FeedShards feed_shards = {};
};

struct PrefetchOptions {
  int64_t first_step = 0;
  // No step from here on is read.
  int64_t end_step = std::numeric_limits<int64_t>::max();
  int workers = 1;  // threads that read
  int ahead = 2;    // steps that are read before they are asked for
};

// What a prefetcher has done so far.
struct PrefetchCounts {
  int64_t steps = 0;      // returned by Next
  int64_t waits = 0;      // of these, steps that were not ready
  double waited_s = 0;    // time that Next waited
  int64_t most_held = 0;  // most steps that were read and not yet returned
};

// Reads the feeds of the next steps in threads of its own while a step runs. A
// run is slowed down only if reading takes longer than a step, by the number of
// workers.
//
//   Prefetcher prefetcher(
//       [&](int64_t step) -> absl::StatusOr<StepFeeds> {
//         MTF_ASSIGN_OR_RETURN(auto feeds, batches->Batch(step));
//         return StepFeeds{.feeds = std::move(feeds)};
//       },
//       {.first_step = session->step(), .workers = 2});
//   MTF_ASSIGN_OR_RETURN(StepFeeds feeds, prefetcher.Next());
//
// `read` is called from several threads at once and depends on the step only,
// so the feeds do not depend on the number of workers. It must return: the
// destructor waits for the calls in progress, and starts no others. What `read`
// refers to must outlive the prefetcher.
class Prefetcher {
 public:
  using Read = std::function<absl::StatusOr<StepFeeds>(int64_t step)>;

  // At least one worker, and one step ahead.
  explicit Prefetcher(Read read, PrefetchOptions options = {});
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The feeds of the next step, from options.first_step on. An error of `read`
  // is returned at its step, and exceptions of the standard library as by
  // CatchExceptions; the call after it returns the next step. kOutOfRange at
  // end_step. From one thread at a time.
  absl::StatusOr<StepFeeds> Next();

  // The step that Next will return.
  int64_t next_step() const;

  PrefetchCounts counts() const;

 private:
  void Work();

  const Read read_;
  const PrefetchOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable work_, done_;
  int64_t next_;       // the step that Next returns
  int64_t unclaimed_;  // the first step that no worker has begun
  bool stopping_ = false;
  std::map<int64_t, absl::StatusOr<StepFeeds>> finished_;
  PrefetchCounts counts_;
  std::vector<std::thread> workers_;  // last: they use the other members
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_PREFETCHER_H_
