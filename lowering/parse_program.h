// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PARSE_PROGRAM_H_
#define LOWERING_PARSE_PROGRAM_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lowering/program/program.h"

namespace mtf {

// Reads the text form of print_program.h and verifies it. kInvalidArgument
// with line and column for text that is no program, and for one that does not
// end as it says: it was cut, or lost a line. Grains allow each dimension the
// axes that the text uses for it or a name tied to it, and those of its
// "grains" line. Where the text gives plans of einsums, they are those that
// PlanEinsums makes.
//
//   MTF_ASSIGN_OR_RETURN(Program program, ParseProgram(
//       "mesh{data:2}\n"
//       "%x : f32[batch:8/data] = input x\n"
//       "output(%x) x\n"
//       "end{instructions:2}\n"));
absl::StatusOr<Program> ParseProgram(absl::string_view text);

}  // namespace mtf

#endif  // LOWERING_PARSE_PROGRAM_H_
