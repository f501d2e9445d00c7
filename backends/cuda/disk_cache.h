// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_DISK_CACHE_H_
#define BACKENDS_CUDA_DISK_CACHE_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace mtf::cuda {

// What took long to find out, kept in files for later processes. Never an
// error: what cannot be read is not there, what cannot be written is not kept,
// which is told once on standard error.
// Any number of processes may share a folder.
//
//   const DiskCache cache(DiskCache::Folder("kernels"));
//   if (auto code = cache.Find(key)) ...
//   cache.Keep(key, code);
class DiskCache {
 public:
  // The part `name` of the user's cache: below MTF_CACHE_DIR, else
  // XDG_CACHE_HOME/mtf, else HOME/.cache/mtf; "" where none of them is set, or
  // MTF_CACHE_DIR is empty.
  static std::string Folder(absl::string_view name);

  // In `folder`, which is made on first use; "" keeps nothing.
  explicit DiskCache(std::string folder) : folder_(std::move(folder)) {}

  // What was last kept under `key`; nothing where the file is damaged.
  std::optional<std::string> Find(absl::string_view key) const;
  // Appears whole or not at all.
  void Keep(absl::string_view key, absl::string_view content) const;

  const std::string& folder() const { return folder_; }

 private:
  std::string PathOf(absl::string_view key) const;

  std::string folder_;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DISK_CACHE_H_
