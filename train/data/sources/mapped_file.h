// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_SOURCES_MAPPED_FILE_H_
#define TRAIN_DATA_SOURCES_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mtf::train {

// The device and the number of a file, whatever path or link leads to it.
using FileIdentity = std::pair<uint64_t, uint64_t>;

// A file in memory without reading it: pages are read when they are touched,
// and the processes of a machine share them. Opening takes microseconds for a
// file of any size. The file must not shrink while it is mapped: touching a
// page that is gone ends the program.
class MappedFile {
 public:
  // Maps the regular file at `path`. Errors call it `what`: "cannot read tokens
  // "a.bin": No such file or directory". kNotFound, kPermissionDenied, or
  // kInvalidArgument if it is not a regular file.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(
      const std::string& path, absl::string_view what);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  absl::string_view bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  // The same for all paths of one file, and for no other file.
  const FileIdentity& identity() const { return identity_; }

 private:
  MappedFile(std::string path, FileIdentity identity, const char* data,
             size_t size);

  const std::string path_;
  const FileIdentity identity_;
  const char* const data_;
  const size_t size_;
};

// The files that `names` lists, separated by commas. Each is a path, or a
// pattern with "*", "?" or "[...]" for all files that match it, in the order of
// their names: "train_*.bin", "a.txt,b.txt". kNotFound for a pattern that
// matches nothing; kInvalidArgument for an empty list and for a file that is
// listed twice, also by different paths or links.
absl::StatusOr<std::vector<std::string>> DataFiles(absl::string_view names);

// The error of a file that is listed as `first` and again as `second`.
absl::Status ListedTwice(const std::string& first, const std::string& second);

}  // namespace mtf::train

#endif  // TRAIN_DATA_SOURCES_MAPPED_FILE_H_
