// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_PARSE_FLAGS_H_
#define TRAIN_LOOP_PARSE_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace mtf::train {

// Sets the program's Abseil flags from its arguments (without the program's own
// name). Unlike absl::ParseCommandLine it returns errors as a Status, so that a
// job of many ranks can print them once.
//
//   --name=value  --name value  --flag  --noflag  --flagfile=FILE  --
//
// If a flag is repeated, the last value applies. A flagfile has one flag per
// line and "#" comments, and may name other flagfiles; the command line takes
// precedence over it. kInvalidArgument, with the allowed range or the nearest
// name, for an invalid value, an unknown flag or an argument that is not a
// flag. kNotFound for a flagfile that cannot be read.
absl::Status ParseFlags(const std::vector<std::string>& arguments);

// Whether the latest ParseFlags set the flag `name`.
bool FlagIsGiven(absl::string_view name);

// The last value that `arguments` give to the flag `name`, as --name=value or
// --name value. Ignores flagfiles and checks nothing; for a flag that is needed
// before the flags are parsed.
absl::optional<std::string> FindFlagValue(
    const std::vector<std::string>& arguments, absl::string_view name);

// True if `arguments` contain --help.
bool HasHelpFlag(const std::vector<std::string>& arguments);

// The text of --help: `usage`, then every flag with its default value.
std::string HelpText(absl::string_view usage);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_PARSE_FLAGS_H_
