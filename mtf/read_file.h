// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_READ_FILE_H_
#define MTF_READ_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mtf {

// All bytes of the plain file at `path`; `what` it should be begins the
// message of an error:
//
//   cannot read layout file "a.layout": No such file or directory
//
// kNotFound or kPermissionDenied as the system says; kInvalidArgument for what
// is no plain file (opening a pipe could wait for ever, and a device might
// never end) or has more than `most_bytes`; kDataLoss where reading stops
// before the end; kResourceExhausted where the memory does not hold it.
absl::StatusOr<std::string> ReadPlainFile(const std::string& path,
                                          absl::string_view what,
                                          int64_t most_bytes);

// The same of a text for people: a byte order mark at its begin is left out,
// and kInvalidArgument for one with a byte 0, which is a file of another kind.
absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         absl::string_view what,
                                         int64_t most_bytes);

}  // namespace mtf

#endif  // MTF_READ_FILE_H_
