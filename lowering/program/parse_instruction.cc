// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "lowering/program/program_parser.h"

namespace mtf::internal {

std::string ProgramParser::FirstLine(const absl::Status& status) {
  return std::string(status.message().substr(0, status.message().find('\n')));
}

int ProgramParser::Axis(LineReader& line) {
  const std::string name = line.Word();
  if (!line.ok()) return 0;
  const int axis = program_.mesh.Find(name);
  if (axis < 0) {
    line.FailWord(absl::StrCat("the mesh has no axis \"", name, "\""));
  } else if (program_.mesh.axis_size(axis) == 1) {
    line.FailWord(
        absl::StrCat("axis \"", name, "\" has size 1 and shards nothing"));
  }
  return std::max(axis, 0);
}

void ProgramParser::ParseAxes(LineReader& line, absl::string_view separator,
                              AxisList& axes) {
  do {
    const int axis = Axis(line);
    if (line.ok() && axes.Contains(axis)) {
      line.FailWord("an axis occurs twice");
    }
    if (line.ok()) axes.push_back(axis);
  } while (line.ok() && line.Take(separator));
}

void ProgramParser::ParseDimensions(LineReader& line, ParsedType& type) {
  line.Expect("[");
  std::vector<Dimension> dims;
  bool local = false;
  while (line.ok() && !line.Take("]")) {
    Dimension dim;
    dim.name = line.Word();
    line.Expect(":");
    dim.size = line.Integer(0);
    AxisList axes;
    if (line.Take("/")) ParseAxes(line, "+", axes);
    int64_t extent = -1;
    if (line.Take("=")) {
      extent = line.Integer(0);
      local = true;
    }
    type.local.push_back(extent);
    type.layout.dims.push_back(axes);
    dims.push_back(std::move(dim));
    if (!line.Take(",")) {
      line.Expect("]");
      break;
    }
  }
  type.shape = Shape(std::move(dims));
  if (!line.ok()) return;
  if (const absl::Status valid = type.shape.Validate(); !valid.ok()) {
    return line.Fail(valid.message());
  }
  for (int i = 0; i < type.shape.rank(); ++i) {
    program_.grains.Allow(type.shape[i].name, SetOf(type.layout.dims[i]));
  }
  has_local_ = has_local_ || local;
  if (line.TakeWord("unreduced")) {
    line.Expect("{");
    AxisList axes;
    ParseAxes(line, ",", axes);
    type.layout.unreduced = SetOf(axes);
    line.Expect("}");
    if (line.TakeWord("max")) type.layout.reduction = ReduceKind::kMax;
    if (line.TakeWord("min")) type.layout.reduction = ReduceKind::kMin;
  }
}

DType ProgramParser::ParsedDType(LineReader& line) {
  const absl::StatusOr<DType> dtype = ParseDType(line.Word());
  if (!dtype.ok()) line.FailWord(FirstLine(dtype.status()));
  return dtype.value_or(kFloat32);
}

ParsedType ProgramParser::ParseType(LineReader& line) {
  ParsedType type;
  // A dtype is letters and digits up to the bracket.
  type.dtype = ParsedDType(line);
  if (!line.ok()) return type;
  ParseDimensions(line, type);
  return type;
}

int ProgramParser::Operand(LineReader& line) {
  line.Expect("%");
  const std::string name = line.Name();
  if (!line.ok()) return 0;
  const auto it = ids_.find(name);
  if (it == ids_.end()) {
    line.FailWord(absl::StrCat("no value %", name, " is defined above"));
    return 0;
  }
  return it->second;
}

void ProgramParser::ParseBuffer(LineReader& line, BufferPlan::Buffer& buffer) {
  if (!has_buffers_) {
    return line.Fail("a value has an \"@\", but the text has no buffers{...}",
                     "use the text as it was written, or remove every \"@\": "
                     "memory is then planned");
  }
  line.Expect("@");
  bool quoted = false;
  const std::string text = line.Name(&quoted);
  if (!quoted && absl::SimpleAtoi(text, &buffer.offset)) {
    buffer.storage = BufferPlan::Storage::kArena;
    if (buffer.offset < 0) line.FailWord("a negative offset");
  } else {
    buffer.storage = BufferPlan::Storage::kVariable;
    buffer.symbol = text;
  }
}

void ProgramParser::ParseInstruction(LineReader& line) {
  const absl::InlinedVector<int, 1> results = ParseResults(line);
  if (!line.ok()) return;
  const std::optional<Opcode> opcode = ParseOpcode(line, results.size());
  if (!opcode.has_value()) return;
  Instruction instruction(*opcode);
  instruction.results = results;
  if (line.Take("(")) {
    while (line.ok() && !line.Take(")")) {
      instruction.operands.push_back(Operand(line));
      if (!line.Take(",")) {
        line.Expect(")");
        break;
      }
    }
  }
  if (!line.ok()) return;
  if (const std::string wrong =
          WrongOperandCount(*opcode, instruction.operands.size());
      !wrong.empty()) {
    return line.Fail(wrong);
  }
  if (InfoOf(*opcode).results.most == 1 && results.size() > 1) {
    return line.Fail(absl::StrCat(OpcodeName(*opcode), " has 1 result, not ",
                                  results.size()));
  }
  ParseAttributes(line, instruction);
  ParseOrigin(line, instruction);
  if (!line.ok()) return;
  program_.instructions.push_back(std::move(instruction));
  lines_.push_back(line.number());
}

absl::InlinedVector<int, 1> ProgramParser::ParseResults(LineReader& line) {
  absl::InlinedVector<int, 1> results;
  while (line.ok() && line.Take("%")) {
    const std::string name = line.Name();
    line.Expect(":");
    ParsedType type = ParseType(line);
    BufferPlan::Buffer buffer;
    if (line.Sees("@")) ParseBuffer(line, buffer);
    if (!line.ok()) return results;
    if (ids_.contains(name)) {
      line.Fail(absl::StrCat("%", name, " is defined twice"));
      return results;
    }
    const int id = program_.AddValue(name, type.dtype, type.shape, type.layout);
    program_.values[id].name = name;
    program_.buffers.buffers.push_back(buffer);
    given_extents_.push_back(type.local);
    ids_[name] = id;
    results.push_back(id);
    if (!line.Take(",")) break;
  }
  if (!results.empty()) line.Expect("=");
  return results;
}

std::optional<Opcode> ProgramParser::ParseOpcode(LineReader& line,
                                                 size_t results) {
  const std::string name = line.Word();
  if (!line.ok()) return std::nullopt;
  const std::optional<Opcode> opcode = FindOpcode(name);
  if (!opcode.has_value()) {
    line.FailWord(absl::StrCat("no instruction ", Quoted(name)));
    return std::nullopt;
  }
  const bool has_results = InfoOf(*opcode).results.most > 0;
  if (has_results == (results > 0)) return opcode;
  line.FailWord(has_results ? "a result is missing"
                            : absl::StrCat(name, " has no result"));
  return std::nullopt;
}

void ProgramParser::ParseOrigin(LineReader& line, Instruction& instruction) {
  if (line.Take("for{")) {
    do {
      Cause cause;
      cause.dimension = line.Word();
      line.Expect("/");
      cause.axis = Axis(line);
      if (line.TakeWord("rule")) {
        const int64_t rule = line.Integer(0);
        const auto rules = static_cast<int64_t>(program_.rules.size());
        if (line.ok() && rule >= rules) {
          line.FailWord(absl::StrCat(
              "the text has ", rules == 0 ? "no rules"
                                          : absl::StrCat(Plural(rules, "rule"),
                                                         ", counted from 0")));
        }
        cause.rule = line.ok() ? static_cast<int>(rule) : -1;
      }
      instruction.causes.push_back(std::move(cause));
    } while (line.ok() && line.Take(","));
    line.Expect("}");
  }
  if (!line.ok() || !line.TakeWord("at")) return;
  Origin origin;
  origin.operation = line.Name();
  origin.site.file = line.Name();
  line.Expect(":");
  origin.site.line =
      static_cast<int>(line.Integer(0, std::numeric_limits<int>::max()));
  if (!line.ok()) return;
  const auto [known, is_new] =
      origins_.try_emplace({origin.operation, origin.site.ToString()},
                           static_cast<int>(program_.origins.size()));
  if (is_new) program_.origins.push_back(std::move(origin));
  instruction.origin = known->second;
}

}  // namespace mtf::internal
