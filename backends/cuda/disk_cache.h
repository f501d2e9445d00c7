// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_DISK_CACHE_H_
#define BACKENDS_CUDA_DISK_CACHE_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace mtf::cuda {

// A persistent cache of results that are slow to compute, one file each.
// Failures are not errors: an unreadable entry counts as missing, and an entry
// that cannot be written is dropped, which is reported once on standard error.
// Processes may share a folder.
//
//   const DiskCache cache(DiskCache::Folder("kernels"));
//   if (auto code = cache.Find(key)) ...
//   cache.Keep(key, code);
class DiskCache {
 public:
  // The subfolder `name` of the user's cache: below MTF_CACHE_DIR, else
  // XDG_CACHE_HOME/mtf, else HOME/.cache/mtf. "" if none of them is set or
  // MTF_CACHE_DIR is empty.
  static std::string Folder(absl::string_view name);

  // Stores in `folder`, which is created on first use; "" stores nothing.
  explicit DiskCache(std::string folder) : folder_(std::move(folder)) {}

  // The content last stored under `key`; nullopt if missing or damaged.
  std::optional<std::string> Find(absl::string_view key) const;
  // Atomic: readers see the old entry or the new one.
  void Keep(absl::string_view key, absl::string_view content) const;

  const std::string& folder() const { return folder_; }

 private:
  std::string PathOf(absl::string_view key) const;

  std::string folder_;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DISK_CACHE_H_
