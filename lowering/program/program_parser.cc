// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/program_parser.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "layouts/shard.h"
#include "layouts/text_items.h"
#include "lowering/program/program_parser.h"

namespace mtf::internal {
namespace {

// The longest text that is parsed.
constexpr size_t kMaxText = size_t{1} << 28;
// The longest line of an error: a name or an instruction may be as long as the
// file.
constexpr size_t kMaxErrorLine = 300;
// More memory than any device has.
constexpr int64_t kMaxArena = int64_t{1} << 60;

}  // namespace

absl::Status WithoutLongLines(const absl::Status& status) {
  std::string text;
  for (absl::string_view line : absl::StrSplit(status.message(), '\n')) {
    absl::StrAppend(&text, text.empty() ? "" : "\n",
                    line.substr(0, kMaxErrorLine),
                    line.size() > kMaxErrorLine ? "..." : "");
  }
  return absl::Status(status.code(), text);
}

absl::StatusOr<ParsedProgram> ProgramParser::Run(absl::string_view text) {
  if (text.size() > kMaxText) {
    return absl::InvalidArgumentError("the text is longer than 256 MiB");
  }
  const std::vector<LogicalLine> lines = LogicalLines(text);
  const LogicalLine* last = nullptr;
  for (const LogicalLine& line : lines) {
    if (line.text.find_first_not_of(' ') != std::string::npos) last = &line;
  }
  for (const LogicalLine& line : lines) {
    const absl::Status status = ParseLine(line);
    if (status.ok()) continue;
    if (&line != last || !has_mesh_ || has_end_) {
      return WithoutLongLines(status);
    }
    return WithoutLongLines(absl::InvalidArgumentError(absl::StrCat(
        status.message(),
        DetailLine(
            "note",
            "the text has no end{...} after this line: it may be truncated"))));
  }
  if (!has_mesh_) {
    return absl::InvalidArgumentError(
        "line 1, column 1: the text has no mesh{...}");
  }
  MTF_RETURN_IF_ERROR(CheckEnd(*last));
  FinishExtents();
  ParsedProgram parsed;
  parsed.program = std::move(program_);
  parsed.lines = std::move(lines_);
  parsed.einsum_plans = std::move(plans_);
  parsed.has_buffers = has_buffers_;
  parsed.arena_position = std::move(arena_position_);
  parsed.commit_position = std::move(commit_position_);
  return parsed;
}

absl::Status ProgramParser::ParseLine(const LogicalLine& text) {
  LineReader line(text);
  if (line.AtEnd() || line.Take("#")) return absl::OkStatus();
  bool several = false;  // a text may have several rules
  if (has_end_) {
    line.Fail("the program has ended above");
  } else if (line.TakeWord("mesh")) {
    ParseMesh(line);
  } else if (!has_mesh_) {
    line.Fail("the first line must be mesh{...}");
  } else if (TakeHeader(line, "tied", has_tied_)) {
    ParseTied(line);
  } else if (TakeHeader(line, "grains", has_grains_)) {
    ParseGrains(line);
  } else if (TakeHeader(line, "buffers", has_buffers_)) {
    ParseBuffers(line);
  } else if (TakeHeader(line, "rule", several)) {
    ParseRule(line);
  } else if (line.TakeWord("end")) {
    ParseEnd(line);
  } else if (line.TakeWord("group")) {
    ParseGroup(line);
  } else if (!program_.groups.empty()) {
    line.Fail("an instruction follows a group",
              "groups come after all instructions");
  } else {
    ParseInstruction(line);
  }
  if (line.ok() && !line.AtEnd()) line.Fail("unexpected text");
  return line.status();
}

bool ProgramParser::TakeHeader(LineReader& line, absl::string_view word,
                               bool& seen) {
  if (!line.TakeWord(word)) return false;
  if (!program_.instructions.empty()) {
    line.Fail(absl::StrCat(word, " must come before all instructions"));
  } else if (seen) {
    line.Fail(absl::StrCat(word, " is given twice"));
  }
  seen = true;
  return true;
}

void ProgramParser::ParseEnd(LineReader& line) {
  const auto count = static_cast<int64_t>(program_.instructions.size());
  line.Expect("{instructions:");
  const int64_t stated = line.Integer(0);
  has_end_ = line.ok();
  if (line.ok() && stated != count) {
    return line.FailWord(
        absl::StrCat("the text above has ", Plural(count, "instruction"),
                     ", not ", stated),
        absl::StrCat(stated > count ? "lines are missing" : "lines were added",
                     ": use the text as it was written, or, if it is meant to "
                     "be so, end it with \"end{instructions:",
                     count, "}\""));
  }
  line.Expect("}");
}

absl::Status ProgramParser::CheckEnd(const LogicalLine& last) const {
  if (has_end_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      last.Position(last.text.size()),
      ": the text is truncated: it ends without end{...}",
      DetailLine("help",
                 absl::StrCat("use the text as it was written, or, if it is "
                              "complete, end it with \"end{instructions:",
                              program_.instructions.size(), "}\""))));
}

void ProgramParser::ParseMesh(LineReader& line) {
  if (has_mesh_) return line.Fail("the mesh is given twice");
  line.Expect("{");
  std::string text;
  Mesh mesh;
  while (line.ok() && !line.Take("}")) {
    const std::string name = line.Word();
    line.Expect(":");
    absl::StrAppend(&text, text.empty() ? "" : ",", name, ":", line.Integer());
    if (!line.ok()) return;
    const absl::StatusOr<Mesh> parsed = Mesh::Parse(text);
    if (!parsed.ok()) {
      // Without the position in `text`, which the user does not see.
      const std::string what = FirstLine(parsed.status());
      return line.FailWord(what.substr(0, what.rfind(" (item ")));
    }
    mesh = *parsed;
    line.Take(",");
  }
  if (!line.ok()) return;
  program_.mesh = mesh;
  program_.grains = Grains(mesh);
  has_mesh_ = true;
}

void ProgramParser::ParseTied(LineReader& line) {
  line.Expect("{");
  while (line.ok() && !line.Take("}")) {
    const std::string name = line.Word();
    line.Expect(":");
    const std::string other = line.Word();
    if (line.ok()) program_.grains.Tie(other, name);
    line.Take(",");
  }
}

void ProgramParser::ParseGrains(LineReader& line) {
  line.Expect("{");
  while (line.ok() && !line.Take("}")) {
    const std::string name = line.Word();
    line.Expect(":");
    AxisList axes;
    ParseAxes(line, "+", axes);
    if (line.ok()) program_.grains.Allow(name, SetOf(axes));
    line.Take(",");
  }
}

void ProgramParser::ParseBuffers(LineReader& line) {
  line.Expect("{arena:");
  arena_position_ = line.Position();
  program_.buffers.arena_bytes = line.Integer(0, kMaxArena);
  line.Expect(", commit:");
  commit_position_ = line.Position();
  program_.buffers.commit =
      static_cast<int>(line.Integer(0, std::numeric_limits<int>::max()));
  line.Expect("}");
}

void ProgramParser::ParseRule(LineReader& line) {
  LayoutRule rule;
  if (line.Take("[")) {
    const std::string name = line.Word();
    for (RuleSection section : {RuleSection::kScopes, RuleSection::kParameters,
                                RuleSection::kOptimizer}) {
      if (RuleSectionName(section) == name) rule.section = section;
    }
    if (rule.section == RuleSection::kDefault) {
      return line.FailWord("no such section of a layout");
    }
    rule.keep_gathered =
        rule.section == RuleSection::kParameters && line.Take("keep_gathered");
    if (rule.section == RuleSection::kScopes) {
      do {
        rule.scopes.push_back(line.Pattern());
      } while (line.ok() && line.Take(","));
    }
    line.Expect("]");
  }
  rule.dimension = line.Word();
  line.Expect(":");
  do {
    rule.axes.push_back(line.Word());
  } while (line.ok() && line.Take("+"));
  line.Expect("from");
  rule.origin = line.Name();
  if (line.ok()) program_.rules.push_back(std::move(rule));
}

void ProgramParser::FinishExtents() {
  if (has_buffers_) {
    program_.buffers.buffers.resize(program_.values.size());
  } else {
    program_.buffers = {};
  }
  bool has_other_extents = false;  // than the sizes
  for (const ProgramValue& value : program_.values) {
    for (int i = 0; i < value.shape.rank(); ++i) {
      has_other_extents = has_other_extents ||
                          LocalExtent(program_.grains, value.shape,
                                      value.layout, i) != value.shape[i].size;
    }
  }
  const bool local =
      !has_other_extents || has_local_ || has_buffers_ || !plans_.empty();
  for (size_t v = 0; v < program_.values.size() && local; ++v) {
    ProgramValue& value = program_.values[v];
    value.local = given_extents_[v];
    SetExtents(value.shape, value.local);
  }
  for (Instruction& instruction : program_.instructions) {
    auto* reduce = instruction.Find<ReduceAttributes>();
    if (reduce == nullptr) continue;
    if (local) {
      SetExtents(reduce->iteration, reduce->iteration_local);
    } else {
      reduce->iteration_local.clear();
    }
  }
}

void ProgramParser::SetExtents(const Shape& shape,
                               absl::InlinedVector<int64_t, 5>& extents) {
  for (int i = 0; i < shape.rank(); ++i) {
    if (extents[i] < 0) extents[i] = shape[i].size;
  }
}

}  // namespace mtf::internal
