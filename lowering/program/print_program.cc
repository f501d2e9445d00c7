// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/print_program.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lowering/program/print_attributes.h"
#include "lowering/program/print_dimensions.h"

namespace mtf {
namespace {

using internal::AttributesText;
using internal::DimensionsText;
using internal::NameText;

constexpr size_t kMaxColumns = 118;

// Where the value is stored, " @1024" or " @kernel".
std::string BufferText(const Program& program, int value) {
  if (program.buffers.buffers.size() != program.values.size()) return "";
  const BufferPlan::Buffer& buffer = program.buffers.buffers[value];
  switch (buffer.storage) {
    case BufferPlan::Storage::kNone:
      return "";
    case BufferPlan::Storage::kArena:
      return absl::StrCat(" @", buffer.offset);
    case BufferPlan::Storage::kVariable:
      // Quoted, because digits alone are an offset.
      if (buffer.symbol.find_first_not_of("0123456789") == std::string::npos) {
        return absl::StrCat(" @\"", buffer.symbol, "\"");
      }
      return absl::StrCat(" @", NameText(buffer.symbol));
  }
  return "";
}

using internal::VariableMarks;

VariableMarks VariableMarksOf(const Program& program) {
  VariableMarks marks;
  for (const ProgramVariable& variable : program.variables) {
    std::string mark(VariableMark(variable.section));
    if (variable.offloaded)
      absl::StrAppend(&mark, mark.empty() ? "" : " ", "offload");
    if (!mark.empty()) marks[variable.name] = std::move(mark);
  }
  return marks;
}

// The causes of an instruction and the user's operation that it comes from.
std::string OriginText(const Program& program, const Instruction& instruction) {
  std::string text;
  for (const Cause& cause : instruction.causes) {
    absl::StrAppend(&text, text.empty() ? " for{" : ", ", cause.dimension, "/",
                    program.mesh.axes()[cause.axis].name);
    if (cause.rule >= 0) absl::StrAppend(&text, " rule ", cause.rule);
  }
  if (!text.empty()) text += "}";
  if (instruction.origin < 0) return text;
  const Origin& origin = program.origins[instruction.origin];
  return absl::StrCat(text, " at ", NameText(origin.operation), " ",
                      NameText(origin.site.file), ":", origin.site.line);
}

std::string RuleLine(const LayoutRule& rule) {
  return absl::StrCat("rule ",
                      rule.section == RuleSection::kDefault
                          ? ""
                          : absl::StrCat("[", rule.SectionName(), "] "),
                      rule.ToString(), " from \"", absl::CEscape(rule.origin),
                      "\"\n");
}

// Breaks a long line at spaces and indents what follows.
std::string Wrapped(std::string line) {
  std::string text;
  while (line.size() > kMaxColumns) {
    const size_t at = line.rfind(' ', kMaxColumns);
    if (at == std::string::npos || at <= 4) break;
    absl::StrAppend(&text, line.substr(0, at), "\n");
    line = absl::StrCat("    ", line.substr(at + 1));
  }
  return text + line;
}

std::string InstructionText(const Program& program, const VariableMarks& marks,
                            const Instruction& instruction,
                            ProgramDetail detail) {
  std::string line;
  for (int result : instruction.results) {
    const ProgramValue& value = program.values[result];
    absl::StrAppend(
        &line, line.empty() ? "" : ", ", "%", NameText(value.name), " : ",
        DTypeName(value.dtype),
        DimensionsText(program, value.shape, value.layout, value.local),
        BufferText(program, result));
  }
  if (!instruction.results.empty()) line += " = ";
  absl::StrAppend(&line, OpcodeName(instruction.opcode));
  if (!instruction.operands.empty()) {
    line += "(";
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      absl::StrAppend(&line, i > 0 ? ", " : "", "%",
                      NameText(program.values[instruction.operands[i]].name));
    }
    line += ")";
  }
  line += AttributesText(program, marks, instruction);
  if (detail == ProgramDetail::kWithOrigins) {
    line += OriginText(program, instruction);
  }
  return Wrapped(std::move(line));
}

}  // namespace

std::string PrintInstruction(const Program& program,
                             const Instruction& instruction,
                             ProgramDetail detail) {
  return InstructionText(program, VariableMarksOf(program), instruction,
                         detail);
}

namespace {

// The name of a group's kind, and the attributes that follow its members.
struct GroupText {
  const Program& program;

  std::string Value(absl::string_view what, int value) const {
    if (value < 0) return "";
    return absl::StrCat(" ", what, " %", NameText(program.values[value].name));
  }
  std::pair<std::string, std::string> operator()(
      const ConvolutionGroup&) const {
    return {"convolution", ""};
  }
  std::pair<std::string, std::string> operator()(const PoolGroup&) const {
    return {"pool", ""};
  }
  std::pair<std::string, std::string> operator()(
      const EpilogueGroup& group) const {
    return {"epilogue",
            absl::StrCat(
                Value("bias", group.bias),
                Value(group.accumulates ? "accumulate" : "add", group.addend),
                group.gelu ? " gelu" : "",
                Value("gelu_gradient", group.gelu_gradient))};
  }
  std::pair<std::string, std::string> operator()(const RowGroup&) const {
    return {"rows", ""};
  }
  std::pair<std::string, std::string> operator()(
      const BiasGradientGroup& group) const {
    return {"bias_gradient", Value("of", group.summed)};
  }
  std::pair<std::string, std::string> operator()(const MapGroup&) const {
    return {"maps", ""};
  }
};

}  // namespace

std::string PrintGroup(const Program& program, const FusedGroup& group) {
  const auto [kind, attributes] = std::visit(GroupText{program}, group.kind);
  std::vector<std::vector<int>> sections = {group.members};
  if (const auto* maps = group.Find<MapGroup>()) sections = maps->sections;
  std::string members;
  for (const std::vector<int>& section : sections) {
    if (!members.empty()) members += "; ";
    for (int member : section) {
      const int result = program.instructions[member].results[0];
      absl::StrAppend(&members, member == section.front() ? "%" : ", %",
                      NameText(program.values[result].name));
    }
  }
  return Wrapped(absl::StrCat("group ", kind, "(", members, ")", attributes));
}

std::string PrintProgram(const Program& program, ProgramDetail detail) {
  const VariableMarks marks = VariableMarksOf(program);
  std::string text = "mesh{";
  for (int i = 0; i < program.mesh.num_axes(); ++i) {
    const MeshAxis& axis = program.mesh.axes()[i];
    absl::StrAppend(&text, i > 0 ? ", " : "", axis.name, ":", axis.size);
  }
  absl::StrAppend(&text, "}\n",
                  internal::PrintDimensions(
                      program, detail == ProgramDetail::kWithOrigins));
  if (!program.buffers.buffers.empty()) {
    absl::StrAppend(&text, "buffers{arena:", program.buffers.arena_bytes,
                    ", commit:", program.buffers.commit, "}\n");
  }
  if (detail == ProgramDetail::kWithOrigins) {
    for (const LayoutRule& rule : program.rules) text += RuleLine(rule);
  }
  for (const Instruction& instruction : program.instructions) {
    absl::StrAppend(&text, InstructionText(program, marks, instruction, detail),
                    "\n");
  }
  for (const FusedGroup& group : program.groups) {
    absl::StrAppend(&text, PrintGroup(program, group), "\n");
  }
  absl::StrAppend(&text, "end{instructions:", program.instructions.size(),
                  "}\n");
  return text;
}

}  // namespace mtf
