// SPDX-License-Identifier: Apache-2.0
#include "train/data/sources/mapped_file.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "layouts/text_items.h"
#include "mtf/status.h"

namespace mtf::train {
namespace {

absl::Status CannotMap(const std::string& path, absl::string_view what,
                       absl::StatusCode code, absl::string_view reason) {
  return absl::Status(
      code, absl::StrCat("cannot read ", what, " ", Quoted(path), ": ", reason,
                         DetailLine("help", "name a readable file")));
}

absl::Status CannotMap(const std::string& path, absl::string_view what,
                       int error) {
  return CannotMap(path, what, absl::ErrnoToStatusCode(error),
                   std::strerror(error));
}

FileIdentity IdentityOf(const struct stat& info) {
  return {static_cast<uint64_t>(info.st_dev),
          static_cast<uint64_t>(info.st_ino)};
}

// Appends the files that match `pattern` to `files`.
absl::Status ExpandPattern(const std::string& pattern,
                           std::vector<std::string>& files) {
  if (pattern.find_first_of("*?[") == std::string::npos) {
    files.push_back(pattern);
    return absl::OkStatus();
  }
  glob_t found;
  const int result = glob(pattern.c_str(), 0, nullptr, &found);
  for (size_t i = 0; result == 0 && i < found.gl_pathc; ++i) {
    files.emplace_back(found.gl_pathv[i]);
  }
  globfree(&found);
  if (result == 0) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("no file matches ", Quoted(pattern),
                   DetailLine("help",
                              "quote the pattern, and name files that "
                              "exist")));
}

}  // namespace

MappedFile::MappedFile(std::string path, FileIdentity identity,
                       const char* data, size_t size)
    : path_(std::move(path)),
      identity_(std::move(identity)),
      data_(data),
      size_(size) {}

MappedFile::~MappedFile() {
  if (size_ > 0) munmap(const_cast<char*>(data_), size_);
}

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Open(
    const std::string& path, absl::string_view what) {
  // Opening a pipe without O_NONBLOCK would wait for its writer.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return CannotMap(path, what, errno);
  struct stat info;
  if (fstat(file, &info) != 0) {
    const int error = errno;
    close(file);
    return CannotMap(path, what, error);
  }
  if (!S_ISREG(info.st_mode)) {
    close(file);
    return CannotMap(path, what, absl::StatusCode::kInvalidArgument,
                     "not a regular file");
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* data = nullptr;
  if (size > 0) data = mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  const int error = errno;
  close(file);  // the mapping stays
  if (data == MAP_FAILED) return CannotMap(path, what, error);
  return std::shared_ptr<const MappedFile>(new MappedFile(
      path, IdentityOf(info), static_cast<const char*>(data), size));
}

absl::StatusOr<std::vector<std::string>> DataFiles(absl::string_view names) {
  std::vector<std::string> files;
  for (absl::string_view name :
       absl::StrSplit(names, ',', absl::SkipWhitespace())) {
    name = absl::StripAsciiWhitespace(name);
    MTF_RETURN_IF_ERROR(ExpandPattern(std::string(name), files));
  }
  if (files.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no data files are named",
                     DetailLine("help", "name them, separated by commas")));
  }
  std::map<FileIdentity, std::string> seen;
  for (const std::string& file : files) {
    struct stat info;
    // Opening it will say why it cannot be read.
    if (stat(file.c_str(), &info) != 0) continue;
    const auto [first, is_new] = seen.emplace(IdentityOf(info), file);
    if (!is_new) return ListedTwice(first->second, file);
  }
  return files;
}

absl::Status ListedTwice(const std::string& first, const std::string& second) {
  return absl::InvalidArgumentError(absl::StrCat(
      "data file ", Quoted(first), " is listed twice",
      first == second ? "" : DetailLine("again", Quoted(second)),
      DetailLine("help", "mix data sets by weight to read one more often")));
}

}  // namespace mtf::train
