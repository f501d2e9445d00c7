// SPDX-License-Identifier: Apache-2.0
#ifndef TOOLS_READ_PROGRAM_H_
#define TOOLS_READ_PROGRAM_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lowering/program/program.h"

namespace mtf::tools {

// Whether a text is a program: its first line that is not a comment is a mesh.
bool LooksLikeProgram(absl::string_view text);

// Reads the last program of a file that --dump_program wrote. Its contents show
// which passes it has been through (program_stage.h), with or without a
// "# after PASS" line; the remaining passes are run. Returns kNotFound if there
// is no such file, and kInvalidArgument with the line in the file if the text
// is not a program, contradicts its "# after PASS" line, or is one that a pass
// cannot continue from.
absl::StatusOr<Program> ReadProgram(const std::string& path);

// The same for a text that was read from `path`.
absl::StatusOr<Program> ParseDump(absl::string_view text,
                                  const std::string& path);

}  // namespace mtf::tools

#endif  // TOOLS_READ_PROGRAM_H_
