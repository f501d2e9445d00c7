// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_CHECKPOINT_RETENTION_H_
#define TRAIN_CHECKPOINT_RETENTION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/file_system.h"
#include "train/checkpoint/manifest.h"

namespace mtf::train {

// Decides which checkpoints of a folder are kept and removes the others: the
// newest `keep` and the best one stay. Damaged ones do not count and are not
// removed. Not thread-safe.
class Retention {
 public:
  Retention(FileSystem& files, std::string folder, int keep, BestMetric best)
      : files_(files), folder_(std::move(folder)), keep_(keep), best_(best) {}

  // Reads what is in the folder.
  absl::Status Load();

  // Adds a checkpoint that is durable, and removes what is not to be kept. An
  // old one that cannot be removed is a notice.
  void Add(const Manifest& manifest);

  std::vector<std::string> TakeNotices() { return std::exchange(notices_, {}); }

 private:
  std::optional<int64_t> BestStep() const;
  FileSystem& files_;
  std::string folder_;
  int keep_;
  BestMetric best_;
  std::map<int64_t, std::optional<double>> metrics_;  // by step
  std::vector<std::string> notices_;
};

}  // namespace mtf::train

#endif  // TRAIN_CHECKPOINT_RETENTION_H_
