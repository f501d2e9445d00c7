// SPDX-License-Identifier: Apache-2.0
#include "tools/read_program.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "layouts/text_items.h"
#include "lowering/lower.h"
#include "lowering/parse_program.h"
#include "mtf/status.h"
#include "tools/mtf_flags.h"

namespace mtf::tools {
namespace {

constexpr absl::string_view kAfter = "# after ";

// The last program of a dump. Lines before it become empty ones, so that
// places in it are those in the file.
struct Dump {
  std::string text;
  std::string pass;  // behind which it was written, or ""
  int line = 0;      // of that comment
};

Dump LastOf(absl::string_view text) {
  Dump dump;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (absl::StartsWith(line, kAfter)) {
      dump.pass = std::string(
          absl::StripAsciiWhitespace(absl::StripPrefix(line, kAfter)));
      dump.line = number;
      dump.text = std::string(number - 1, '\n');
    }
    absl::StrAppend(&dump.text, line, "\n");
  }
  return dump;
}

}  // namespace

bool LooksLikeProgram(absl::string_view text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    return absl::StartsWith(line, "mesh{");
  }
  return false;
}

absl::StatusOr<Program> ParseDump(absl::string_view text,
                                  const std::string& path) {
  const Dump dump = LastOf(text);
  const auto in_file = [&](const absl::Status& status) {
    return absl::Status(
        status.code(),
        absl::StrCat(status.message(), DetailLine("file", Escaped(path))));
  };
  if (!LooksLikeProgram(dump.text)) {
    return in_file(absl::InvalidArgumentError(absl::StrCat(
        Quoted(path), " is no program: it does not begin with a mesh",
        DetailLine("help",
                   "--dump_program=PROGRAM.txt of a training program writes "
                   "one"))));
  }
  absl::StatusOr<Program> program = ParseProgram(dump.text);
  if (!program.ok()) return in_file(program.status());

  std::vector<std::string> passes = PassNames();
  passes.insert(passes.begin(), "emit_program");
  auto last = passes.begin();
  if (!dump.pass.empty()) {
    last = std::find(passes.begin(), passes.end(), dump.pass);
    if (last == passes.end()) {
      const std::string nearest = NearestName(dump.pass, passes);
      return in_file(absl::InvalidArgumentError(absl::StrCat(
          "line ", dump.line, " names no pass: ", Quoted(dump.pass),
          nearest.empty()
              ? ""
              : absl::StrCat("; did you mean \"", nearest, "\"?"))));
    }
  } else if (program->buffers.buffers.size() == program->values.size()) {
    last = passes.end() - 1;
  }
  if (std::none_of(program->instructions.begin(), program->instructions.end(),
                   [](const Instruction& instruction) {
                     return instruction.opcode == Opcode::kOutput ||
                            instruction.opcode == Opcode::kWriteVariable;
                   })) {
    return in_file(absl::InvalidArgumentError(
        absl::StrCat("the program of ", Quoted(path),
                     " neither hands out a value nor writes a variable",
                     DetailLine("help",
                                "a step has an output(...) or a write_variable "
                                "at least"))));
  }
  // What the text leaves out of the plans of einsums follows from the rest.
  if (last >= std::find(passes.begin(), passes.end(), "plan_einsums")) {
    MTF_RETURN_IF_ERROR(RunPass("plan_einsums", *program));
  }
  for (++last; last != passes.end(); ++last) {
    const absl::Status status = RunPass(*last, *program);
    if (!status.ok()) return in_file(status);
  }
  return program;
}

absl::StatusOr<Program> ReadProgram(const std::string& path) {
  MTF_ASSIGN_OR_RETURN(const std::string text, ReadText(path, "program"));
  return ParseDump(text, path);
}

}  // namespace mtf::tools
