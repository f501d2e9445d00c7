// SPDX-License-Identifier: Apache-2.0
//
// Program texts in tests, without the final line "end{instructions:N}", which
// is added with the number of instructions.
#ifndef TESTS_PROGRAM_TEXT_H_
#define TESTS_PROGRAM_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lowering/parse_program.h"
#include "lowering/program/line_reader.h"
#include "lowering/program/print_program.h"

namespace mtf::testing {

// `text` with its final line appended, unless it has one. Tests of errors call
// this with invalid texts too.
inline std::string Ended(absl::string_view text) {
  int instructions = 0;
  for (const LogicalLine& line : LogicalLines(text)) {
    if (absl::StartsWith(line.text, "end{")) return std::string(text);
    bool is_other = line.text.find_first_not_of(' ') == std::string::npos;
    for (const char* other :
         {"#", "mesh", "tied{", "grains{", "buffers{", "rule ", "group "}) {
      is_other = is_other || absl::StartsWith(line.text, other);
    }
    if (!is_other) ++instructions;
  }
  return absl::StrCat(text,
                      text.empty() || absl::EndsWith(text, "\n") ? "" : "\n",
                      "end{instructions:", instructions, "}\n");
}

inline absl::StatusOr<Program> ParseText(absl::string_view text) {
  return ParseProgram(Ended(text));
}

inline std::string TextOf(const Program& program,
                          ProgramDetail detail = ProgramDetail::kPlain) {
  const std::string text = PrintProgram(program, detail);
  return text.substr(0, text.rfind("end{instructions:"));
}

}  // namespace mtf::testing

#endif  // TESTS_PROGRAM_TEXT_H_
