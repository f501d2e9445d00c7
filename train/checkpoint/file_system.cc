// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/status.h"

namespace mtf::train {
namespace {

// Linux transfers at most 2 GiB in one call.
constexpr int64_t kMostBytesPerCall = 1 << 30;

absl::StatusCode CodeOfErrno(int number) {
  switch (number) {
    case EROFS:
    case EACCES:
    case EPERM:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::StatusCode::kResourceExhausted;
    case EIO:
      return absl::StatusCode::kDataLoss;
    case EEXIST:
    case ENOTEMPTY:
      return absl::StatusCode::kAlreadyExists;
    default:
      return absl::ErrnoToStatusCode(number);
  }
}

absl::string_view HelpOfErrno(int number) {
  switch (number) {
    case ENOSPC:
    case EDQUOT:
      return "make room there, or name a folder on another disk";
    case EFBIG:
      return "raise the limit of the size of files (ulimit -f)";
    case EROFS:
    case EACCES:
    case EPERM:
      return "name a folder in which this user may write";
    default:
      return "";
  }
}

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }
  int Release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

class RealReadableFile : public ReadableFile {
 public:
  RealReadableFile(std::string path, int descriptor, int64_t size)
      : path_(std::move(path)), descriptor_(descriptor), size_(size) {}
  int64_t size() const override { return size_; }
  absl::Status Read(int64_t offset, void* to, int64_t bytes) const override {
    char* at = static_cast<char*>(to);
    while (bytes > 0) {
      const ssize_t read = pread(descriptor_.get(), at,
                                 std::min(bytes, kMostBytesPerCall), offset);
      if (read < 0) {
        if (errno == EINTR) continue;
        return SystemError("read", path_, errno);
      }
      if (read == 0) {
        return absl::DataLossError(
            absl::StrCat("file ", Quoted(path_), " ends at byte ", offset,
                         ", but had ", size_, " when it was opened"));
      }
      at += read;
      offset += read;
      bytes -= read;
    }
    return absl::OkStatus();
  }

 private:
  std::string path_;
  Descriptor descriptor_;
  int64_t size_;
};

// Has the kernel write consecutive bytes to the disk as soon as there are this
// many, while the caller computes and copies the next ones. Otherwise the disk
// is idle until Sync, and the time of both adds up.
constexpr int64_t kWriteBackBytes = int64_t{8} << 20;

class RealWritableFile : public WritableFile {
 public:
  RealWritableFile(std::string path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}
  absl::Status Write(int64_t offset, const void* from, int64_t bytes) override {
    const char* at = static_cast<const char*>(from);
    while (bytes > 0) {
      const ssize_t written = pwrite(
          descriptor_.get(), at, std::min(bytes, kMostBytesPerCall), offset);
      if (written < 0) {
        if (errno == EINTR) continue;
        return SystemError("write to", path_, errno);
      }
      at += written;
      offset += written;
      bytes -= written;
      StartWriteBack(offset - written, written);
    }
    return absl::OkStatus();
  }
  absl::Status Sync() override {
    if (fsync(descriptor_.get()) == 0) return absl::OkStatus();
    return SystemError("sync", path_, errno);
  }
  absl::Status Close() override {
    if (close(descriptor_.Release()) == 0) return absl::OkStatus();
    return SystemError("close", path_, errno);
  }

 private:
  // A hint after `bytes` bytes were written at `offset`. Errors of the disk are
  // those of Sync, which also makes the size and the blocks durable.
  void StartWriteBack(int64_t offset, int64_t bytes) {
    if (offset != unstarted_end_) unstarted_begin_ = offset;
    unstarted_end_ = offset + bytes;
    const int64_t unstarted = unstarted_end_ - unstarted_begin_;
    if (unstarted < kWriteBackBytes) return;
#ifdef SYNC_FILE_RANGE_WRITE
    (void)sync_file_range(descriptor_.get(), unstarted_begin_, unstarted,
                          SYNC_FILE_RANGE_WRITE);
#endif
    unstarted_begin_ = unstarted_end_;
  }

  std::string path_;
  Descriptor descriptor_;
  // The last consecutive bytes whose writing to the disk has not been started.
  int64_t unstarted_begin_ = 0, unstarted_end_ = 0;
};

class RealFileLock : public FileLock {
 public:
  explicit RealFileLock(int descriptor) : descriptor_(descriptor) {}

 private:
  Descriptor descriptor_;  // closing it releases the lock
};

class RealFileSystem : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path,
                                                     Links links) override {
    const int no_links = links == Links::kReject ? O_NOFOLLOW : 0;
    // O_NONBLOCK: opening a pipe would wait for its other end.
    Descriptor file(
        open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | no_links));
    if (file.get() < 0) {
      if (errno == ELOOP && no_links != 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            "cannot open ", Quoted(path), ": it is a symbolic link"));
      }
      return SystemError("open", path, errno);
    }
    struct stat info;
    if (fstat(file.get(), &info) != 0) return SystemError("open", path, errno);
    if (!S_ISREG(info.st_mode)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "cannot open ", Quoted(path), ": it is not a regular file"));
    }
    return std::make_unique<RealReadableFile>(path, file.Release(),
                                              info.st_size);
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToWrite(
      const std::string& path, WriteMode mode) override {
    const int create = mode == WriteMode::kCreate ? O_CREAT | O_EXCL : 0;
    const int file =
        open(path.c_str(),
             O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | create, 0666);
    if (file < 0) return SystemError("create", path, errno);
    return std::make_unique<RealWritableFile>(path, file);
  }

  absl::Status MakeFolder(const std::string& path) override {
    if (mkdir(path.c_str(), 0777) == 0) return absl::OkStatus();
    return SystemError("create folder", path, errno);
  }

  absl::Status SyncFolder(const std::string& path) override {
    const Descriptor folder(
        open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.get() < 0) return SystemError("open folder", path, errno);
    if (fsync(folder.get()) == 0) return absl::OkStatus();
    return SystemError("sync folder", path, errno);
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return SystemError(absl::StrCat("rename ", Quoted(from), " to"), to, errno);
  }

  absl::Status Remove(const std::string& path) override {
    if (std::remove(path.c_str()) == 0) return absl::OkStatus();
    return SystemError("remove", path, errno);
  }

  absl::StatusOr<std::vector<std::string>> List(
      const std::string& path) override {
    DIR* const folder = opendir(path.c_str());
    if (folder == nullptr) return SystemError("list folder", path, errno);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = readdir(folder)) {
      if (IsPlainFileName(entry->d_name)) names.emplace_back(entry->d_name);
      errno = 0;
    }
    const int number = errno;
    closedir(folder);
    if (number != 0) return SystemError("list folder", path, number);
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::StatusOr<std::unique_ptr<FileLock>> Lock(
      const std::string& path) override {
    Descriptor file(open(path.c_str(),
                         O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                         0666));
    if (file.get() < 0) return SystemError("create", path, errno);
    while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK) {
        return absl::AlreadyExistsError(
            absl::StrCat("file ", Quoted(path), " is locked"));
      }
      return SystemError("lock", path, errno);
    }
    return std::make_unique<RealFileLock>(file.Release());
  }
};

}  // namespace

FileSystem& FileSystem::Real() {
  static auto& files = *new RealFileSystem;
  return files;
}

std::string PathIn(absl::string_view folder, absl::string_view name) {
  if (folder.empty()) return std::string(name);
  return absl::StrCat(folder, folder.back() == '/' ? "" : "/", name);
}

bool IsPlainFileName(absl::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find('/') == name.npos && name.find('\0') == name.npos;
}

absl::StatusOr<std::string> ReadWhole(FileSystem& files,
                                      const std::string& path, Links links,
                                      int64_t most_bytes) {
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file,
                       files.Open(path, links));
  if (file->size() > most_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("file ", Quoted(path), " has ", file->size(),
                     " bytes; the limit is ", most_bytes));
  }
  std::string text(file->size(), '\0');
  MTF_RETURN_IF_ERROR(file->Read(0, text.data(), file->size()));
  return text;
}

absl::Status WriteDurably(FileSystem& files, const std::string& path,
                          absl::string_view text) {
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                       files.OpenToWrite(path, WriteMode::kCreate));
  MTF_RETURN_IF_ERROR(
      file->Write(0, text.data(), static_cast<int64_t>(text.size())));
  MTF_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

absl::Status SystemError(absl::string_view action, const std::string& path,
                         int number) {
  const absl::string_view help = HelpOfErrno(number);
  return absl::Status(
      CodeOfErrno(number),
      absl::StrCat("cannot ", action, " ", Quoted(path), ": ",
                   std::strerror(number),
                   help.empty() ? "" : DetailLine("help", help)));
}

}  // namespace mtf::train
