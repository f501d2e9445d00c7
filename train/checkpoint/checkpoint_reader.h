// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_CHECKPOINT_CHECKPOINT_READER_H_
#define TRAIN_CHECKPOINT_CHECKPOINT_READER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mtf/dtype.h"
#include "train/checkpoint/element_range.h"
#include "train/checkpoint/file_system.h"
#include "train/checkpoint/manifest.h"
#include "train/checkpoint/safetensors.h"

namespace mtf::train {

// Reads ranges of the variables of a checkpoint, and compares the checksum of
// every block that it reads. Blocks that are wanted as they are stored are read
// into the memory of the caller, by the threads of the calling rank; of others
// it holds one at a time. Errors are those of DamagedCheckpoint. Thread-safe.
class CheckpointReader {
 public:
  // `path` is the folder of the checkpoint. The others must outlive the reader.
  CheckpointReader(FileSystem& files, std::string path,
                   const Manifest& manifest)
      : files_(files), path_(std::move(path)), manifest_(manifest) {}

  // Reads `wanted` of the variable into `to`, a row-major array of `dtype`,
  // which may be narrower or wider than that of the variable. Adds the bytes
  // that were read to `bytes_read`.
  absl::Status Read(const ManifestVariable& variable,
                    const ElementRanges& wanted, DType dtype, void* to,
                    int64_t* bytes_read);

  // Reads all blocks of the variable.
  absl::Status Verify(const ManifestVariable& variable);

 private:
  using File = std::shared_ptr<const SafetensorsFile>;
  // Receives elements of a shard: their index in the target, and their number.
  using Sink =
      absl::FunctionRef<void(int64_t to, const char* elements, int64_t count)>;
  absl::StatusOr<File> OpenFile(int index);
  absl::StatusOr<const SafetensorsEntry*> FindEntry(
      const SafetensorsFile& file, const ManifestVariable& variable,
      const ManifestShard& shard) const;
  // A block that is read to `to`.
  struct WholeBlock {
    int64_t index;
    char* to;
  };
  absl::Status ReadPart(const ManifestVariable& variable,
                        const ManifestShard& shard, const ElementRanges& part,
                        const ElementRanges& target, char* direct, Sink sink,
                        int64_t* bytes_read);
  int64_t BlockBytes(const SafetensorsEntry& entry, int64_t block) const;
  absl::Status ReadBlock(const SafetensorsFile& file,
                         const SafetensorsEntry& entry,
                         const ManifestShard& shard,
                         const WholeBlock& block) const;
  absl::Status ForEachBlock(
      int64_t count,
      absl::FunctionRef<absl::Status(int64_t begin, int64_t end)> read) const;
  absl::Status CheckBools(const ManifestVariable& variable,
                          const ManifestShard& shard, const char* elements,
                          int64_t count) const;

  FileSystem& files_;
  const std::string path_;
  const Manifest& manifest_;
  std::mutex mutex_;
  std::map<int, File> open_;  // guarded by mutex_
};

}  // namespace mtf::train

#endif  // TRAIN_CHECKPOINT_CHECKPOINT_READER_H_
