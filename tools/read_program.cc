// SPDX-License-Identifier: Apache-2.0
#include "tools/read_program.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "layouts/text_items.h"
#include "lowering/lower.h"
#include "lowering/parse_program.h"
#include "mtf/status.h"
#include "tools/mtf_flags.h"
#include "tools/program_stage.h"

namespace mtf::tools {
namespace {

// The last program of a dump. Earlier lines become empty lines, so that line
// numbers in it are those of the file.
struct Dump {
  std::string text;
  std::string pass;  // the pass of its "# after PASS" line, or ""
  int line = 0;      // line number of that comment, or else of the mesh
};

// The word of a line "# after WORD", or "" for other comments.
absl::string_view PassOf(absl::string_view line) {
  if (!absl::ConsumePrefix(&line, "# after ")) return "";
  line = absl::StripAsciiWhitespace(line);
  const bool is_word = std::all_of(line.begin(), line.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
           c == '-';
  });
  return is_word ? line : "";
}

Dump LastOf(absl::string_view text) {
  Dump dump;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (const absl::string_view pass = PassOf(line); !pass.empty()) {
      dump.pass = std::string(pass);
      dump.line = number;
      dump.text = std::string(number - 1, '\n');
    } else if (dump.line == 0 && LooksLikeProgram(line)) {
      dump.line = number;
    }
    absl::StrAppend(&dump.text, line, "\n");
  }
  return dump;
}

// The contents of the text decide which stage it is of; a "# after PASS" line
// above it must agree.
absl::Status CheckStage(const StageRange& range, const Dump& dump) {
  const std::vector<std::string> names = StageNames();
  if (range.first > range.last) {
    return absl::InvalidArgumentError(absl::StrCat(
        "line ", dump.line, ": the text fits no pass: it ", range.not_earlier,
        ", but ", range.not_later,
        DetailLine("note",
                   absl::StrCat("the former holds from ", names[range.first],
                                " on, the latter up to ", names[range.last])),
        DetailLine("help", "use the text as the program wrote it")));
  }
  if (dump.pass.empty()) return absl::OkStatus();
  const auto named = std::find(names.begin(), names.end(), dump.pass);
  if (named == names.end()) {
    const std::string nearest = NearestName(dump.pass, names);
    return absl::InvalidArgumentError(absl::StrCat(
        "line ", dump.line, " names no pass: ", Quoted(dump.pass),
        nearest.empty() ? ""
                        : absl::StrCat("; did you mean \"", nearest, "\"?"),
        DetailLine("passes", absl::StrJoin(names, ", "))));
  }
  const size_t stage = named - names.begin();
  if (range.first <= stage && stage <= range.last) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "line ", dump.line, ": the text is not the output of ", dump.pass,
      ": it ", stage < range.first ? range.not_earlier : range.not_later,
      DetailLine(
          "stages",
          absl::StrCat("it may be the output of ",
                       absl::StrJoin(names.begin() + range.first,
                                     names.begin() + range.last + 1, ", "))),
      DetailLine("help",
                 "name one of them, or remove the line: the missing passes run "
                 "on the text")));
}

// Runs the passes after stage `first` on a program of that stage.
absl::Status RunPasses(size_t first, Program& program) {
  const std::vector<std::string> names = StageNames();
  const auto stage_index = [&names](absl::string_view name) -> size_t {
    return std::find(names.begin(), names.end(), name) - names.begin();
  };
  const auto run = [&program](const std::string& name) {
    const absl::Status status = RunPass(name, program);
    if (status.code() != absl::StatusCode::kInternal) return status;
    // Not a bug of the pass: lowering may never write such a text.
    return absl::InvalidArgumentError(absl::StrCat(
        "pass ", name, " cannot continue from the text: ", status.message()));
  };
  if (first < stage_index("shard_shapes")) {
    // If nothing is sharded, the text may also be of a later stage.
    for (ProgramValue& value : program.values) value.local.clear();
    for (Instruction& instruction : program.instructions) {
      if (auto* reduce = instruction.Find<ReduceAttributes>()) {
        reduce->iteration_local.clear();
      }
    }
  }
  // Plans of einsums that the text leaves out follow from the rest.
  if (first >= stage_index("plan_einsums")) {
    MTF_RETURN_IF_ERROR(run("plan_einsums"));
  }
  for (size_t stage = first + 1; stage < names.size(); ++stage) {
    MTF_RETURN_IF_ERROR(run(names[stage]));
  }
  return absl::OkStatus();
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
  const auto in_file = [&](const absl::Status& status) {
    return absl::Status(
        status.code(),
        absl::StrCat(status.message(), DetailLine("file", Escaped(path))));
  };
  const Dump dump = LastOf(text);
  if (!LooksLikeProgram(dump.text)) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(path), " is not a program: it does not begin with a mesh",
        DetailLine("help",
                   "--dump_program=PROGRAM.txt of a training program writes "
                   "one")));
  }
  absl::StatusOr<Program> program = ParseProgram(dump.text);
  if (!program.ok()) return in_file(program.status());
  const StageRange range = StagesOf(*program);
  if (const absl::Status fits = CheckStage(range, dump); !fits.ok()) {
    return in_file(fits);
  }
  if (std::none_of(program->instructions.begin(), program->instructions.end(),
                   [](const Instruction& instruction) {
                     return HasEffect(instruction.opcode);
                   })) {
    return absl::InvalidArgumentError(
        absl::StrCat("the program of ", Quoted(path),
                     " neither outputs a value nor writes a variable",
                     DetailLine("help",
                                "a step has an output(...) or a write_variable "
                                "at least")));
  }
  if (const absl::Status status = RunPasses(range.first, *program);
      !status.ok()) {
    return in_file(status);
  }
  return program;
}

absl::StatusOr<Program> ReadProgram(const std::string& path) {
  MTF_ASSIGN_OR_RETURN(const std::string text, ReadText(path, "program"));
  return ParseDump(text, path);
}

}  // namespace mtf::tools
