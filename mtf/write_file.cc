// SPDX-License-Identifier: Apache-2.0
#include "mtf/write_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace mtf {

absl::Status WritePlainFile(const std::string& path, absl::string_view text,
                            absl::string_view what, absl::string_view help) {
  const auto error = [&](absl::StatusCode code, int number,
                         absl::string_view way_out) {
    return absl::Status(
        code,
        absl::StrCat("cannot write ", what, " to \"", absl::CHexEscape(path),
                     "\": ", std::strerror(number), "\n  help     ", way_out));
  };
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) {
    return error(absl::StatusCode::kPermissionDenied, errno, help);
  }
  // A full disk may be detected only when the buffer is flushed.
  errno = 0;
  const bool written =
      std::fwrite(text.data(), 1, text.size(), file) == text.size() &&
      std::fflush(file) == 0;
  int number = written ? 0 : errno;
  if (std::fclose(file) != 0 && number == 0) number = errno;
  if (number == 0) {
    if (written) return absl::OkStatus();
    number = EIO;
  }
  if (number == ENOSPC || number == EDQUOT) {
    return error(absl::StatusCode::kResourceExhausted, number,
                 "make room there, or name a file on another disk");
  }
  return error(absl::StatusCode::kDataLoss, number,
               "the file is now incomplete; name another file");
}

}  // namespace mtf
