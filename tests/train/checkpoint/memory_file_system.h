// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_TRAIN_CHECKPOINT_MEMORY_FILE_SYSTEM_H_
#define TESTS_TRAIN_CHECKPOINT_MEMORY_FILE_SYSTEM_H_

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "train/checkpoint/file_system.h"

namespace mtf::train {

// A file system in memory that fails on demand, and that can crash: what was
// not synced is lost then. Operations that change it are counted from 1.
class MemoryFileSystem : public FileSystem {
 public:
  // What a crash leaves of what was not synced.
  enum class Unsynced { kLost, kKept, kRandom };

  // The operation with this number fails with the error; the others go on.
  void FailAt(int64_t operation, int error) {
    Arm(operation, error, /*crash=*/false);
  }
  // From this operation on nothing happens any more.
  void CrashAt(int64_t operation) { Arm(operation, EIO, /*crash=*/true); }
  void Disarm() { Arm(-1, 0, false); }
  int64_t operations() const { return operations_; }

  // The most bytes of all files together, and whether changes are refused.
  int64_t most_bytes = int64_t{1} << 40;
  bool read_only = false;
  // Counts what Read has read.
  int64_t bytes_read = 0;
  // Called with the path before a file is opened for reading, as another job
  // would run then. It may use the file system. Null: not called.
  std::function<void(const std::string& path)> on_open = nullptr;

  // The machine starts again after a crash.
  void Restart(Unsynced unsynced, uint32_t seed) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::mt19937 random(seed);
    Revert(*root_, unsynced, random);
    locked_.clear();
    fail_at_ = -1;
    crashed_ = false;
  }

  // The contents of a file, to be damaged; null if there is none.
  std::string* Contents(const std::string& path) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::shared_ptr<Node> node = Find(path);
    return node == nullptr || node->folder ? nullptr : &node->data;
  }

  absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path,
                                                     Links) override {
    if (on_open != nullptr) on_open(path);
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::shared_ptr<Node> node = Find(path);
    if (node == nullptr) return SystemError("open", path, ENOENT);
    if (node->folder) return SystemError("open", path, EISDIR);
    return std::make_unique<Readable>(*this, node);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToWrite(
      const std::string& path, WriteMode mode) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const int error = Count()) return SystemError("create", path, error);
    std::shared_ptr<Node> node = Find(path);
    if (mode == WriteMode::kCreate) {
      if (node != nullptr) return SystemError("create", path, EEXIST);
      const std::shared_ptr<Node> parent = Find(ParentPath(path));
      if (parent == nullptr) return SystemError("create", path, ENOENT);
      node = parent->entries[LastName(path)] = std::make_shared<Node>();
    }
    if (node == nullptr) return SystemError("create", path, ENOENT);
    return std::make_unique<Writable>(*this, node, path);
  }
  absl::Status MakeFolder(const std::string& path) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const int error = Count()) return SystemError("create", path, error);
    if (Find(path) != nullptr) return SystemError("create", path, EEXIST);
    const std::shared_ptr<Node> parent = Find(ParentPath(path));
    if (parent == nullptr) return SystemError("create", path, ENOENT);
    const auto node = std::make_shared<Node>();
    node->folder = true;
    parent->entries[LastName(path)] = node;
    return absl::OkStatus();
  }
  absl::Status SyncFolder(const std::string& path) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const int error = Count()) return SystemError("sync", path, error);
    const std::shared_ptr<Node> node = Find(path);
    if (node == nullptr) return SystemError("sync", path, ENOENT);
    node->durable_entries = node->entries;
    return absl::OkStatus();
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const int error = Count()) return SystemError("rename", from, error);
    const std::shared_ptr<Node> node = Find(from), old = Find(to);
    if (node == nullptr) return SystemError("rename", from, ENOENT);
    if (old != nullptr && old->folder && !old->entries.empty()) {
      return SystemError("rename", to, ENOTEMPTY);
    }
    Find(ParentPath(from))->entries.erase(LastName(from));
    Find(ParentPath(to))->entries[LastName(to)] = node;
    return absl::OkStatus();
  }
  absl::Status Remove(const std::string& path) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const int error = Count()) return SystemError("remove", path, error);
    const std::shared_ptr<Node> node = Find(path);
    if (node == nullptr) return SystemError("remove", path, ENOENT);
    if (!node->entries.empty()) return SystemError("remove", path, ENOTEMPTY);
    Find(ParentPath(path))->entries.erase(LastName(path));
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<std::string>> List(
      const std::string& path) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::shared_ptr<Node> node = Find(path);
    if (node == nullptr) return SystemError("list", path, ENOENT);
    if (!node->folder) return SystemError("list", path, ENOTDIR);
    std::vector<std::string> names;
    for (const auto& [name, entry] : node->entries) names.push_back(name);
    return names;
  }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(
      const std::string& path) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (read_only) return SystemError("create", path, EROFS);
    if (!locked_.insert(path).second) {
      return absl::AlreadyExistsError(absl::StrCat(path, " is locked"));
    }
    return std::make_unique<Held>(*this, path);
  }

 private:
  struct Node {
    bool folder = false;
    std::string data, durable_data;
    std::map<std::string, std::shared_ptr<Node>> entries, durable_entries;
  };

  class Readable : public ReadableFile {
   public:
    Readable(MemoryFileSystem& system, std::shared_ptr<Node> node)
        : system_(system), node_(std::move(node)), size_(node_->data.size()) {}
    int64_t size() const override { return size_; }
    absl::Status Read(int64_t offset, void* to, int64_t bytes) const override {
      const std::lock_guard<std::mutex> lock(system_.mutex_);
      if (offset + bytes > static_cast<int64_t>(node_->data.size())) {
        return absl::DataLossError("the file ends before");
      }
      std::memcpy(to, node_->data.data() + offset, bytes);
      system_.bytes_read += bytes;
      return absl::OkStatus();
    }

   private:
    MemoryFileSystem& system_;
    std::shared_ptr<Node> node_;
    int64_t size_;
  };

  class Writable : public WritableFile {
   public:
    Writable(MemoryFileSystem& system, std::shared_ptr<Node> node,
             std::string path)
        : system_(system), node_(std::move(node)), path_(std::move(path)) {}
    absl::Status Write(int64_t offset, const void* from,
                       int64_t bytes) override {
      const std::lock_guard<std::mutex> lock(system_.mutex_);
      if (const int error = system_.Count()) {
        return SystemError("write to", path_, error);
      }
      const size_t end = offset + bytes;
      const int64_t grown =
          end > node_->data.size() ? end - node_->data.size() : 0;
      if (system_.used_ + grown > system_.most_bytes) {
        return SystemError("write to", path_, ENOSPC);
      }
      system_.used_ += grown;
      if (end > node_->data.size()) node_->data.resize(end);
      std::memcpy(node_->data.data() + offset, from, bytes);
      return absl::OkStatus();
    }
    absl::Status Sync() override {
      const std::lock_guard<std::mutex> lock(system_.mutex_);
      if (const int error = system_.Count()) {
        return SystemError("sync", path_, error);
      }
      node_->durable_data = node_->data;
      return absl::OkStatus();
    }
    absl::Status Close() override {
      const std::lock_guard<std::mutex> lock(system_.mutex_);
      if (const int error = system_.Count()) {
        return SystemError("close", path_, error);
      }
      return absl::OkStatus();
    }

   private:
    MemoryFileSystem& system_;
    std::shared_ptr<Node> node_;
    std::string path_;
  };

  class Held : public FileLock {
   public:
    Held(MemoryFileSystem& system, std::string path)
        : system_(system), path_(std::move(path)) {}
    ~Held() override {
      const std::lock_guard<std::mutex> lock(system_.mutex_);
      system_.locked_.erase(path_);
    }

   private:
    MemoryFileSystem& system_;
    std::string path_;
  };

  static std::string ParentPath(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == path.npos ? "" : path.substr(0, slash);
  }
  static std::string LastName(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
  }
  std::shared_ptr<Node> Find(const std::string& path) const {
    std::shared_ptr<Node> node = root_;
    for (absl::string_view name :
         absl::StrSplit(path, '/', absl::SkipEmpty())) {
      if (name == ".") continue;
      const auto found = node->entries.find(std::string(name));
      if (found == node->entries.end()) return nullptr;
      node = found->second;
    }
    return node;
  }
  // Counts a change; returns the error with which it fails, or 0.
  int Count() {
    ++operations_;
    if (read_only) return EROFS;
    if (crashed_) return EIO;
    if (operations_ != fail_at_) return 0;
    crashed_ = crash_;
    return error_;
  }
  void Arm(int64_t operation, int error, bool crash) {
    const std::lock_guard<std::mutex> lock(mutex_);
    operations_ = 0;
    fail_at_ = operation;
    error_ = error;
    crash_ = crash;
    crashed_ = false;
  }
  static void Revert(Node& node, Unsynced unsynced, std::mt19937& random) {
    const auto keeps = [&] {
      return unsynced == Unsynced::kKept ||
             (unsynced == Unsynced::kRandom && random() % 2 == 0);
    };
    if (!keeps()) {
      // A torn write leaves a part of the new bytes.
      const bool torn = unsynced == Unsynced::kRandom && random() % 2 == 0;
      if (torn && node.data != node.durable_data) {
        node.data.resize(random() % (node.data.size() + 1));
      } else {
        node.data = node.durable_data;
      }
    }
    node.durable_data = node.data;
    if (!keeps()) node.entries = node.durable_entries;
    node.durable_entries = node.entries;
    for (const auto& [name, entry] : node.entries) {
      Revert(*entry, unsynced, random);
    }
  }

  std::mutex mutex_;
  std::shared_ptr<Node> root_ = [] {
    auto root = std::make_shared<Node>();
    root->folder = true;
    return root;
  }();
  std::set<std::string> locked_;
  int64_t operations_ = 0, fail_at_ = -1, used_ = 0;
  int error_ = 0;
  bool crash_ = false, crashed_ = false;
};

}  // namespace mtf::train

#endif  // TESTS_TRAIN_CHECKPOINT_MEMORY_FILE_SYSTEM_H_
