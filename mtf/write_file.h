// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_WRITE_FILE_H_
#define MTF_WRITE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace mtf {

// Writes `text` as the file at `path`, over what was there; `what` it is begins
// the message of an error, and where the file cannot be made `help` ends it:
//
//   cannot write the explanation to "/no/step.html": No such file or directory
//     help     name a file in a folder that exists with --explain_file
//
// kPermissionDenied where the file cannot be made, whatever the reason, which
// the message has; kResourceExhausted where the disk is full; kDataLoss where
// writing fails otherwise.
absl::Status WritePlainFile(const std::string& path, absl::string_view text,
                            absl::string_view what, absl::string_view help);

}  // namespace mtf

#endif  // MTF_WRITE_FILE_H_
