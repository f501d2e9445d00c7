// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_READ_FILE_H_
#define MTF_READ_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mtf {

// Returns the contents of the regular file at `path`. Error messages call the
// file `what`:
//
//   cannot read layout file "a.layout": No such file or directory
//
// Errors:
//   kNotFound, kPermissionDenied   the system cannot open the file
//   kInvalidArgument               not a regular file (reading a pipe or device
//                                  might never end), or over `most_bytes`
//   kDataLoss                      reading failed before the end of the file
//   kResourceExhausted             not enough memory
absl::StatusOr<std::string> ReadPlainFile(const std::string& path,
                                          absl::string_view what,
                                          int64_t most_bytes);

// As ReadPlainFile, for text. Removes a leading byte order mark. A file that
// contains a zero byte is not text: kInvalidArgument.
absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         absl::string_view what,
                                         int64_t most_bytes);

}  // namespace mtf

#endif  // MTF_READ_FILE_H_
