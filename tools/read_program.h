// SPDX-License-Identifier: Apache-2.0
#ifndef TOOLS_READ_PROGRAM_H_
#define TOOLS_READ_PROGRAM_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lowering/program/program.h"

namespace mtf::tools {

// Whether a text is a program: its first line that says something is a mesh.
bool LooksLikeProgram(absl::string_view text);

// The program in a file that --dump_program wrote: the last of those behind
// "# after PASS" lines. What it has says which passes it has been through
// (program_stage.h), whether or not there is such a line, and the others are
// run. kNotFound for a file that is not there; kInvalidArgument with the line
// in the file for text that is no program, that a "# after PASS" line calls
// what it is not, or that a pass cannot go on from.
absl::StatusOr<Program> ReadProgram(const std::string& path);

// The same for text that was read from `path`.
absl::StatusOr<Program> ParseDump(absl::string_view text,
                                  const std::string& path);

}  // namespace mtf::tools

#endif  // TOOLS_READ_PROGRAM_H_
