// SPDX-License-Identifier: Apache-2.0
#include "lowering/parse_program.h"

#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/shard.h"
#include "lowering/plan_einsums.h"
#include "lowering/program_parser.h"
#include "lowering/verify_program.h"

namespace mtf {
namespace internal {
namespace {

// Longest text, and most elements of a constant, that are read on trust.
constexpr size_t kMostText = size_t{1} << 28;

}  // namespace

absl::StatusOr<Program> ProgramParser::Run(absl::string_view text) {
  if (text.size() > kMostText) {
    return absl::InvalidArgumentError("the text is longer than 256 MiB");
  }
  for (const LogicalLine& line : LogicalLines(text)) {
    MTF_RETURN_IF_ERROR(ParseLine(line));
  }
  if (!saw_mesh_) {
    return absl::InvalidArgumentError(
        "line 1, column 1: the text has no mesh{...}");
  }
  FinishExtents();
  int bad = -1;
  const absl::Status valid = VerifyProgram(program_, &bad);
  if (!valid.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "line ", bad < 0 ? 1 : lines_[bad], ", column 1: ", valid.message()));
  }
  // Where memory is planned, einsums are, whether or not the text says so.
  if (planned_einsums_ || has_buffers_) {
    MTF_RETURN_IF_ERROR(PlanEinsums(program_));
  }
  return std::move(program_);
}

absl::Status ProgramParser::ParseLine(const LogicalLine& text) {
  LineReader line(text);
  if (line.AtEnd() || line.Take("#")) return absl::OkStatus();
  if (line.TakeWord("mesh")) {
    ParseMesh(line);
  } else if (!saw_mesh_) {
    line.Fail("the first line is mesh{...}, not this");
  } else if (line.TakeWord("grains")) {
    ParseGrains(line);
  } else if (line.TakeWord("buffers")) {
    line.Expect("{arena:");
    program_.buffers.arena_bytes = line.Integer(0);
    line.Expect(", commit:");
    program_.buffers.commit =
        static_cast<int>(line.Integer(0, std::numeric_limits<int>::max()));
    line.Expect("}");
    has_buffers_ = true;
  } else if (line.TakeWord("rule")) {
    ParseRule(line);
  } else {
    ParseInstruction(line);
  }
  if (line.ok() && !line.AtEnd()) line.Fail("unexpected text");
  return line.status();
}

void ProgramParser::ParseMesh(LineReader& line) {
  if (saw_mesh_) return line.Fail("the mesh is given twice");
  line.Expect("{");
  std::string text;
  while (line.ok() && !line.Take("}")) {
    const std::string name = line.Word();
    line.Expect(":");
    absl::StrAppend(&text, text.empty() ? "" : ",", name, ":", line.Integer());
    line.Take(",");
  }
  if (!line.ok()) return;
  absl::StatusOr<Mesh> mesh = Mesh::Parse(text);
  if (!mesh.ok()) return line.Fail(FirstLine(mesh.status()));
  program_.mesh = *mesh;
  program_.grains = Grains(*mesh);
  saw_mesh_ = true;
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

void ProgramParser::ParseRule(LineReader& line) {
  LayoutRule rule;
  if (line.Take("[")) {
    const std::string name = line.Word();
    for (RuleSection section :
         {RuleSection::kParameters, RuleSection::kOptimizer}) {
      if (RuleSectionName(section) == name) rule.section = section;
    }
    if (rule.section == RuleSection::kDefault) {
      return line.FailWord("no such section of a layout");
    }
    rule.gathered_once =
        rule.section == RuleSection::kParameters && line.Take("gathered_once");
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
  bool cut = false;
  for (const ProgramValue& value : program_.values) {
    for (int i = 0; i < value.shape.rank(); ++i) {
      cut = cut || LocalExtent(program_.grains, value.shape, value.layout, i) !=
                       value.shape[i].size;
    }
  }
  const bool local = !cut || has_local_ || has_buffers_ || planned_einsums_;
  for (size_t v = 0; v < program_.values.size() && local; ++v) {
    ProgramValue& value = program_.values[v];
    value.local = given_extents_[v];
    SetExtents(value.shape, value.local);
  }
  for (Instruction& instruction : program_.instructions) {
    if (local) {
      SetExtents(instruction.iteration, instruction.iteration_local);
    } else {
      instruction.iteration_local.clear();
    }
  }
}

void ProgramParser::SetExtents(const Shape& shape,
                               absl::InlinedVector<int64_t, 5>& extents) {
  for (int i = 0; i < shape.rank(); ++i) {
    if (extents[i] < 0) extents[i] = shape[i].size;
  }
}

}  // namespace internal

absl::StatusOr<Program> ParseProgram(absl::string_view text) {
  return internal::ProgramParser().Run(text);
}

}  // namespace mtf
