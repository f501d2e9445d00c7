// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_WRITE_FILE_H_
#define MTF_WRITE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace mtf {

// Writes `text` to the file at `path`, replacing an existing file. Error
// messages call the file `what`, and end with `help` if the file cannot be
// created:
//
//   cannot write the explanation to "/no/step.html": No such file or directory
//     help     name a file in a folder that exists with --explain_file
//
// Errors: kPermissionDenied if the file cannot be created, for any reason,
// which the message states; kResourceExhausted if the disk is full; kDataLoss
// if writing fails otherwise.
absl::Status WritePlainFile(const std::string& path, absl::string_view text,
                            absl::string_view what, absl::string_view help);

}  // namespace mtf

#endif  // MTF_WRITE_FILE_H_
