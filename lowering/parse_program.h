// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PARSE_PROGRAM_H_
#define LOWERING_PARSE_PROGRAM_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lowering/program.h"

namespace mtf {

// Reads the text form of print_program.h and verifies it. kInvalidArgument
// with line and column for text that is no program. Grains allow each
// dimension the axes that the text uses for it.
absl::StatusOr<Program> ParseProgram(absl::string_view text);

}  // namespace mtf

#endif  // LOWERING_PARSE_PROGRAM_H_
