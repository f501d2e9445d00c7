// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_CHECKPOINT_CHECKPOINT_WRITER_H_
#define TRAIN_CHECKPOINT_CHECKPOINT_WRITER_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mtf/dtype.h"
#include "train/checkpoint/file_system.h"
#include "train/checkpoint/host_memory.h"
#include "train/checkpoint/manifest.h"
#include "train/checkpoint/safetensors.h"

namespace mtf::train {

// What one rank writes: shards of some variables of the manifest.
struct RankPart {
  struct Shard {
    int variable = 0;  // index in Manifest::variables
    ElementRanges ranges;
    DType dtype = kFloat32;
    int64_t bytes = 0;
    HostMemory values;  // row-major
  };
  int64_t rank = 0;
  std::vector<Shard> shards;
};

// One checkpoint to write.
struct CheckpointJob {
  FileSystem* files = nullptr;
  std::string folder;
  Manifest manifest;            // without files and shards
  std::vector<RankPart> parts;  // of the ranks of this process
  // The other processes of the job by rank. Their parts are read in the process
  // that commits, the one of rank 0.
  std::vector<int64_t> other_ranks;
  bool commits = true;
  double commit_timeout = 600;
  // Called in the process that commits when the checkpoint is durable.
  std::function<void(const Manifest& manifest)> on_commit;
};

// Writes a checkpoint in the background:
//
//   1. Each process writes the shards of its ranks into the folder .saving_...,
//      makes them durable, and, if it does not commit, leaves a part manifest
//      with their checksums there.
//   2. The process of rank 0 waits for the parts of all others, writes the
//      manifest, makes it and the names of all files durable, renames the
//      folder and makes the new name durable.
//
// So no manifest exists before all shards are durable, and no checkpoint is
// visible before its manifest is. No communication is needed: collective calls
// belong to the main thread, which may be in a step.
class CheckpointWriter {
 public:
  // Starts the thread. The folder .saving_... exists.
  explicit CheckpointWriter(CheckpointJob job);
  ~CheckpointWriter();

  // Waits for step 1 of this process.
  absl::Status WaitForParts();
  // Waits for both steps. If `cancel`, the second ends early with an error.
  absl::Status Wait(bool cancel);

 private:
  void Run();
  absl::Status WriteParts();
  absl::Status ForEachPart(
      absl::FunctionRef<absl::Status(size_t part)> body) const;
  absl::StatusOr<std::unique_ptr<SafetensorsWriter>> WriteShards(
      const RankPart& part, Manifest& written);
  absl::Status WriteValues(SafetensorsWriter& writer, const std::string& name,
                           absl::string_view values,
                           std::vector<uint32_t>& checksums);
  absl::Status LeavePart(int64_t rank, Manifest written);
  absl::Status Commit();
  absl::StatusOr<Manifest> WaitForPart(int64_t rank);
  std::string saving() const;

  CheckpointJob job_;
  std::atomic<bool> cancelled_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool parts_done_ = false;  // these three are guarded by mutex_
  absl::Status parts_status_, commit_status_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace mtf::train

#endif  // TRAIN_CHECKPOINT_CHECKPOINT_WRITER_H_
