// SPDX-License-Identifier: Apache-2.0
//
// The feeds of a training loop, read while steps run. For the loop; not for
// users.
#ifndef TRAIN_LOOP_BATCH_FEEDS_H_
#define TRAIN_LOOP_BATCH_FEEDS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mtf/host_tensor.h"
#include "train/data/prefetcher.h"
#include "train/loop/trainer.h"
#include "train/session/host_trace.h"

namespace mtf::train {

class BatchFeeds {
 public:
  using Feeds = std::map<std::string, HostTensor>;

  // Reads with the threads that `training.reading` says. `training` must
  // outlive the object, and so must `trace`, to which reads and waits are
  // added.
  BatchFeeds(const Training& training, HostTrace& trace)
      : training_(training), trace_(trace) {}

  // The feeds of `batch`. Reads the batches that follow it ahead, at most
  // `count` with this one. Any batch may be asked for, but those that were read
  // ahead are lost unless it is the next one.
  absl::StatusOr<Feeds> Read(int64_t batch, int64_t count);

  // Waits for the threads and ends them. The next Read starts them again.
  void Stop() { prefetcher_.reset(); }

 private:
  absl::StatusOr<Feeds> ReadTraced(int64_t batch, absl::string_view thread);
  absl::StatusOr<Feeds> ReadAhead(int64_t batch, int64_t count);

  const Training& training_;
  HostTrace& trace_;
  std::unique_ptr<Prefetcher> prefetcher_;  // null: no threads
  int64_t end_ = 0;                         // where it stops reading
};

}  // namespace mtf::train

#endif  // TRAIN_LOOP_BATCH_FEEDS_H_
