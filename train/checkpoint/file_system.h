// SPDX-License-Identifier: Apache-2.0
//
// The file operations of checkpoints. All of them go through FileSystem, so
// that tests can inject failures and crashes at every operation.
#ifndef TRAIN_CHECKPOINT_FILE_SYSTEM_H_
#define TRAIN_CHECKPOINT_FILE_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mtf::train {

// A regular file that is open for reading. Thread-safe.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  // The size when the file was opened.
  virtual int64_t size() const = 0;
  // Reads `bytes` bytes at `offset` into `to`. kDataLoss if the file ends
  // before, which it may if another process has truncated it.
  virtual absl::Status Read(int64_t offset, void* to, int64_t bytes) const = 0;
};

// A file that is open for writing.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  // Writes all `bytes` bytes at `offset`; a gap before it is filled with zeros.
  virtual absl::Status Write(int64_t offset, const void* from,
                             int64_t bytes) = 0;
  // Makes the contents durable. A failed Sync is final: the contents are lost,
  // even if another Sync succeeds.
  virtual absl::Status Sync() = 0;
  // Reports late errors of Write. The destructor closes without reporting.
  virtual absl::Status Close() = 0;
};

// Held until it is destroyed or the process ends.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

enum class Links : uint8_t { kFollow, kReject };
enum class WriteMode : uint8_t {
  kCreate,    // the file must not exist
  kExisting,  // the file must exist; other ranks may write to it as well
};

// Errors name the operation and the path. Codes: kNotFound, kAlreadyExists,
// kPermissionDenied (also for a read-only file system), kResourceExhausted for
// a full disk or quota, kDataLoss for an error of the disk.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // The file system of the operating system.
  static FileSystem& Real();

  // kInvalidArgument for anything but a regular file; does not wait for a pipe.
  // With Links::kReject, also for a symbolic link.
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> Open(
      const std::string& path, Links links) = 0;
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> OpenToWrite(
      const std::string& path, WriteMode mode) = 0;
  // kAlreadyExists if `path` exists; its parent must exist.
  virtual absl::Status MakeFolder(const std::string& path) = 0;
  // Makes the names in a folder durable.
  virtual absl::Status SyncFolder(const std::string& path) = 0;
  // Replaces a file at `to`. A folder at `to` must not exist or be empty.
  virtual absl::Status Rename(const std::string& from,
                              const std::string& to) = 0;
  // Removes a file or an empty folder.
  virtual absl::Status Remove(const std::string& path) = 0;
  // The names in a folder, sorted.
  virtual absl::StatusOr<std::vector<std::string>> List(
      const std::string& path) = 0;
  // Creates the file if needed and locks it against other holders, in this
  // process and others. kAlreadyExists if it is locked.
  virtual absl::StatusOr<std::unique_ptr<FileLock>> Lock(
      const std::string& path) = 0;
};

// `folder`/`name`.
std::string PathIn(absl::string_view folder, absl::string_view name);

// Whether `name` is the name of a file in a folder: not empty, ".", "..", nor
// with a slash or a zero byte.
bool IsPlainFileName(absl::string_view name);

// The complete contents of a file of at most `most_bytes` bytes.
absl::StatusOr<std::string> ReadWhole(FileSystem& files,
                                      const std::string& path, Links links,
                                      int64_t most_bytes);

// Creates the file `path` with `text` and makes its contents durable.
absl::Status WriteDurably(FileSystem& files, const std::string& path,
                          absl::string_view text);

// The error of a failed system call: "cannot open "a/b": No such file or
// directory".
absl::Status SystemError(absl::string_view action, const std::string& path,
                         int number);

}  // namespace mtf::train

#endif  // TRAIN_CHECKPOINT_FILE_SYSTEM_H_
