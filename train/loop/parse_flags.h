// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_PARSE_FLAGS_H_
#define TRAIN_LOOP_PARSE_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace mtf::train {

// Sets the program's Abseil flags from its arguments (without the program's
// own name). Unlike absl::ParseCommandLine it returns every complaint as a
// Status, so that a job of many ranks can print it once.
//
//   --name=value  --name value  --flag  --noflag  --flagfile=FILE  --
//
// A flag given again takes the last value. A flagfile holds one flag a line and
// "#" comments, and may name another; whatever it says, the command line wins.
// kInvalidArgument, with the allowed range or the nearest name, for a value
// that the flag refuses, an unknown flag or an argument that is no flag.
// kNotFound for a flagfile that cannot be read.
absl::Status ParseFlags(const std::vector<std::string>& arguments);

// True when `arguments` ask for help.
bool AsksForHelp(const std::vector<std::string>& arguments);

// What --help prints: `usage`, then every flag with its default value.
std::string HelpText(absl::string_view usage);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_PARSE_FLAGS_H_
