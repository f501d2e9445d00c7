// SPDX-License-Identifier: Apache-2.0
#include "mtf/read_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "mtf/status.h"

namespace mtf {
namespace {

absl::Status CannotRead(const std::string& path, absl::string_view what,
                        absl::StatusCode code, absl::string_view reason) {
  return absl::Status(
      code, absl::StrCat("cannot read ", what, " \"",
                         absl::CHexEscape(path.substr(0, 200)),
                         path.size() > 200 ? "...\": " : "\": ", reason));
}

}  // namespace

absl::StatusOr<std::string> ReadPlainFile(const std::string& path,
                                          absl::string_view what,
                                          int64_t most_bytes) {
  const auto error = [&](absl::StatusCode code, absl::string_view reason) {
    return CannotRead(path, what, code, reason);
  };
  const auto system_error = [&] {
    const int number = errno;
    return error(absl::ErrnoToStatusCode(number), std::strerror(number));
  };
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return system_error();
  if (!S_ISREG(info.st_mode)) {
    return error(absl::StatusCode::kInvalidArgument, "not a regular file");
  }
  if (info.st_size > most_bytes) {
    return error(absl::StatusCode::kInvalidArgument,
                 absl::StrCat("it has ", info.st_size, " bytes; the limit is ",
                              most_bytes));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) return system_error();
  // Files in /proc report the size 0 although they have contents, so the loop
  // reads until the end of the file.
  constexpr int64_t kBlockBytes = 1 << 20;
  std::string text;
  try {
    text.reserve(info.st_size);
    std::string block(kBlockBytes, '\0');
    while (static_cast<int64_t>(text.size()) <= most_bytes) {
      file.read(block.data(), kBlockBytes);
      text.append(block, 0, file.gcount());
      if (!file) break;
    }
  } catch (const std::bad_alloc&) {
    return error(absl::StatusCode::kResourceExhausted,
                 absl::StrCat("no memory for its ", info.st_size, " bytes"));
  }
  if (static_cast<int64_t>(text.size()) > most_bytes) {
    return error(absl::StatusCode::kInvalidArgument,
                 absl::StrCat("it has more than ", most_bytes, " bytes"));
  }
  if (!file.eof()) {
    return error(absl::StatusCode::kDataLoss,
                 absl::StrCat("reading stopped after byte ", text.size()));
  }
  return text;
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         absl::string_view what,
                                         int64_t most_bytes) {
  MTF_ASSIGN_OR_RETURN(std::string text, ReadPlainFile(path, what, most_bytes));
  if (const auto zero = std::find(text.begin(), text.end(), '\0');
      zero != text.end()) {
    return CannotRead(path, what, absl::StatusCode::kInvalidArgument,
                      absl::StrCat("not a text file: byte ",
                                   zero - text.begin(), " is zero"));
  }
  // Some editors on Windows write it.
  constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (absl::StartsWith(text, kByteOrderMark)) {
    text.erase(0, kByteOrderMark.size());
  }
  return text;
}

}  // namespace mtf
