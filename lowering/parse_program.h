// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PARSE_PROGRAM_H_
#define LOWERING_PARSE_PROGRAM_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lowering/program/program.h"

namespace mtf {

// Parses the text form of print_program.h and verifies the program. Returns
// kInvalidArgument with line and column if the text is not a program, or if its
// end line does not match, because it was truncated or lost a line. The grains
// allow each dimension the axes that the text uses for it, or for a name tied
// to it, and those of its "grains" line. Plans of einsums in the text must be
// those that PlanEinsums chooses.
//
//   MTF_ASSIGN_OR_RETURN(Program program, ParseProgram(
//       "mesh{data:2}\n"
//       "%x : f32[batch:8/data] = input x\n"
//       "output(%x) x\n"
//       "end{instructions:2}\n"));
absl::StatusOr<Program> ParseProgram(absl::string_view text);

}  // namespace mtf

#endif  // LOWERING_PARSE_PROGRAM_H_
