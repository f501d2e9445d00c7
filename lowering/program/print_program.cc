// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/print_program.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "lowering/program/print_dimensions.h"

namespace mtf {
namespace {

constexpr size_t kColumns = 118;

std::string Number(double value) {
  std::string text = absl::StrFormat("%.9g", value);
  if (std::strtod(text.c_str(), nullptr) != value) {
    text = absl::StrFormat("%.17g", value);
  }
  return text;
}

absl::string_view ReduceName(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
      return "sum";
    case ReduceKind::kMax:
      return "max";
    case ReduceKind::kMin:
      return "min";
  }
  return "?";
}

std::string Over(const Program& program, const AxisList& axes) {
  // The verifier shows instructions that make no sense.
  for (int axis : axes) {
    if (axis < 0 || axis >= program.mesh.num_axes()) return "over{?}";
  }
  return absl::StrCat("over{", program.mesh.AxisNames(axes, ", "), "}");
}

// "batch:8/data, length:13/model=7", and what is unreduced.
std::string Dimensions(const Program& program, const Shape& shape,
                       const TensorLayout& layout,
                       const absl::InlinedVector<int64_t, 5>& local) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) {
    absl::StrAppend(&text, i > 0 ? ", " : "", shape[i].name, ":",
                    shape[i].size);
    const size_t place = static_cast<size_t>(i);
    if (place < layout.dims.size() && !layout.dims[i].empty()) {
      absl::StrAppend(&text, "/", program.mesh.AxisNames(layout.dims[i], "+"));
    }
    if (place < local.size() && local[i] != shape[i].size) {
      absl::StrAppend(&text, "=", local[i]);
    }
  }
  text += "]";
  if (layout.unreduced != 0) {
    absl::StrAppend(&text, " unreduced{",
                    program.mesh.AxisNames(ListOf(layout.unreduced), ", "),
                    "}");
    if (layout.reduction != ReduceKind::kSum) {
      absl::StrAppend(&text, " ", ReduceName(layout.reduction));
    }
  }
  return text;
}

// A name as it is, or in quotes where it is made of more than letters, digits
// and "_-./": users may call a Scope what they like. Spaces are escaped, for
// lines are broken at them.
std::string Name(absl::string_view name) {
  bool plain = !name.empty();
  for (char c : name) {
    plain = plain && (absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                      absl::StrContains("_-./", c));
  }
  if (plain) return std::string(name);
  return absl::StrCat(
      "\"", absl::StrReplaceAll(absl::CEscape(name), {{" ", "\\040"}}), "\"");
}

std::string Place(const Program& program, int value) {
  if (program.buffers.buffers.size() != program.values.size()) return "";
  const BufferPlan::Buffer& buffer = program.buffers.buffers[value];
  switch (buffer.storage) {
    case BufferPlan::Storage::kNone:
      return "";
    case BufferPlan::Storage::kArena:
      return absl::StrCat(" @", buffer.offset);
    case BufferPlan::Storage::kVariable:
      // Digits alone would be an offset.
      if (buffer.symbol.find_first_not_of("0123456789") == std::string::npos) {
        return absl::StrCat(" @\"", buffer.symbol, "\"");
      }
      return absl::StrCat(" @", Name(buffer.symbol));
  }
  return "";
}

std::string SummedDimensions(const Program& program,
                             const Instruction& instruction) {
  std::vector<std::string> summed;
  if (instruction.results.empty()) return "";
  const Shape& kept = program.values[instruction.results[0]].shape;
  for (int operand : instruction.operands) {
    for (const Dimension& dim : program.values[operand].shape) {
      if (!kept.Contains(dim.name) &&
          std::find(summed.begin(), summed.end(), dim.name) == summed.end()) {
        summed.push_back(dim.name);
      }
    }
  }
  return absl::StrCat(" sum{", absl::StrJoin(summed, ", "), "}");
}

// The variables that are state of an optimizer.
using State = absl::flat_hash_set<absl::string_view>;

State StateOf(const Program& program) {
  State state;
  for (const ProgramVariable& variable : program.variables) {
    if (variable.section == RuleSection::kOptimizer) {
      state.insert(variable.name);
    }
  }
  return state;
}

std::string Attributes(const Program& program, const State& state,
                       const Instruction& instruction) {
  const auto dim_name = [&](int dim) -> std::string {
    if (instruction.operands.empty()) return "?";
    const Shape& shape = program.values[instruction.operands[0]].shape;
    return dim >= 0 && dim < shape.rank() ? shape[dim].name : "?";
  };
  switch (instruction.opcode) {
    case Opcode::kInput:
    case Opcode::kOutput:
      return absl::StrCat(" ", Name(instruction.symbol));
    case Opcode::kReadVariable:
    case Opcode::kWriteVariable:
      return absl::StrCat(
          " ", Name(instruction.symbol),
          state.contains(instruction.symbol)
              ? absl::StrCat(" [", RuleSectionName(RuleSection::kOptimizer),
                             "]")
              : "");
    case Opcode::kConstant:
      return absl::StrCat(" {",
                          absl::StrJoin(instruction.data, ", ",
                                        [](std::string* out, double value) {
                                          out->append(Number(value));
                                        }),
                          "}");
    case Opcode::kRandom:
      return absl::StrCat(instruction.random_kind == RandomKind::kUniform
                              ? " uniform"
                              : " normal",
                          " stream ", instruction.stream,
                          instruction.per_step ? " per_step" : "");
    case Opcode::kMap:
      return absl::StrCat(" ", instruction.expression.ToString());
    case Opcode::kEinsum: {
      std::string text = SummedDimensions(program, instruction);
      if (instruction.einsum != nullptr) {
        absl::StrAppend(&text, " by{", instruction.einsum->ToString(), "}");
      }
      return text;
    }
    case Opcode::kReduce: {
      std::string text = absl::StrCat(" ", ReduceName(instruction.reduce_kind));
      const std::string expression = instruction.expression.ToString();
      const bool plain = expression == "identity" &&
                         !instruction.operands.empty() &&
                         program.values[instruction.operands[0]].shape ==
                             instruction.iteration &&
                         program.values[instruction.operands[0]].layout.dims ==
                             instruction.iteration_layout.dims;
      if (!plain) {
        absl::StrAppend(&text, " ", expression, " over ",
                        Dimensions(program, instruction.iteration,
                                   instruction.iteration_layout,
                                   instruction.iteration_local));
      }
      return text;
    }
    case Opcode::kSlice:
      return absl::StrCat(" ", instruction.dimension, " begin ",
                          instruction.begin);
    case Opcode::kPad:
      return absl::StrCat(" ", instruction.dimension, " before ",
                          instruction.begin, " fill ",
                          Number(instruction.fill));
    case Opcode::kConcat:
    case Opcode::kGather:
    case Opcode::kScatterAdd:
    case Opcode::kTopK:
      return absl::StrCat(" ", instruction.dimension);
    case Opcode::kReduceBlocks:
    case Opcode::kScan:
      return absl::StrCat(" ", ReduceName(instruction.reduce_kind), " ",
                          instruction.dimension,
                          instruction.exclusive ? " exclusive" : "",
                          instruction.reverse ? " reverse" : "");
    case Opcode::kMask: {
      std::string text;
      for (int dim : instruction.mask_dims) {
        absl::StrAppend(&text, text.empty() ? " " : ", ", dim_name(dim));
      }
      return absl::StrCat(text, " fill ", Number(instruction.fill));
    }
    case Opcode::kReshape:
    case Opcode::kReshard:
    case Opcode::kWait:
      return "";
    case Opcode::kAllReduce:
      return absl::StrCat(" ", ReduceName(instruction.reduce_kind), " ",
                          Over(program, instruction.axes));
    case Opcode::kAllGather:
    case Opcode::kAllSlice:
      return absl::StrCat(" ", dim_name(instruction.dim), " ",
                          Over(program, instruction.axes));
    case Opcode::kReduceScatter: {
      std::string dims;
      const size_t count =
          std::min(instruction.operands.size(), instruction.results.size());
      for (size_t i = 0; i < count; ++i) {
        const int dim =
            i == 0 ? instruction.dim
                   : program.ScatteredDim(instruction, static_cast<int>(i));
        const Shape& shape = program.values[instruction.operands[i]].shape;
        absl::StrAppend(&dims, i > 0 ? ", " : "",
                        dim < 0 || dim >= shape.rank() ? "?" : shape[dim].name);
      }
      return absl::StrCat(" ", ReduceName(instruction.reduce_kind), " ", dims,
                          " ", Over(program, instruction.axes));
    }
    case Opcode::kAllToAll:
      return absl::StrCat(" ", dim_name(instruction.from_dim), " to ",
                          dim_name(instruction.dim), " ",
                          Over(program, instruction.axes));
    case Opcode::kCollectivePermute:
      return absl::StrCat(" ", Over(program, instruction.axes));
  }
  return "";
}

// Why an instruction is there and who made it.
std::string OriginOf(const Program& program, const Instruction& instruction) {
  std::string text;
  for (const Cause& cause : instruction.causes) {
    absl::StrAppend(&text, text.empty() ? " for{" : ", ", cause.dimension, "/",
                    program.mesh.axes()[cause.axis].name);
    if (cause.rule >= 0) absl::StrAppend(&text, " rule ", cause.rule);
  }
  if (!text.empty()) text += "}";
  if (instruction.origin < 0) return text;
  const Origin& origin = program.origins[instruction.origin];
  return absl::StrCat(text, " at ", Name(origin.operation), " ",
                      Name(origin.site.file), ":", origin.site.line);
}

std::string RuleLine(const LayoutRule& rule) {
  return absl::StrCat("rule ",
                      rule.section == RuleSection::kDefault
                          ? ""
                          : absl::StrCat("[", rule.SectionName(), "] "),
                      rule.ToString(), " from \"", absl::CEscape(rule.origin),
                      "\"\n");
}

// Breaks a long line at spaces; what follows is indented.
std::string Wrapped(std::string line) {
  std::string text;
  while (line.size() > kColumns) {
    const size_t at = line.rfind(' ', kColumns);
    if (at == std::string::npos || at <= 4) break;
    absl::StrAppend(&text, line.substr(0, at), "\n");
    line = absl::StrCat("    ", line.substr(at + 1));
  }
  return text + line;
}

std::string InstructionText(const Program& program, const State& state,
                            const Instruction& instruction,
                            ProgramDetail detail) {
  std::string line;
  for (int result : instruction.results) {
    const ProgramValue& value = program.values[result];
    absl::StrAppend(&line, line.empty() ? "" : ", ", "%", Name(value.name),
                    " : ", DTypeName(value.dtype),
                    Dimensions(program, value.shape, value.layout, value.local),
                    Place(program, result));
  }
  if (!instruction.results.empty()) line += " = ";
  absl::StrAppend(&line, OpcodeName(instruction.opcode));
  if (!instruction.operands.empty()) {
    line += "(";
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      absl::StrAppend(&line, i > 0 ? ", " : "", "%",
                      Name(program.values[instruction.operands[i]].name));
    }
    line += ")";
  }
  line += Attributes(program, state, instruction);
  if (instruction.asynchronous) line += " asynchronous";
  if (detail == ProgramDetail::kWithOrigins) {
    line += OriginOf(program, instruction);
  }
  return Wrapped(std::move(line));
}

}  // namespace

std::string PrintInstruction(const Program& program,
                             const Instruction& instruction,
                             ProgramDetail detail) {
  return InstructionText(program, StateOf(program), instruction, detail);
}

std::string PrintProgram(const Program& program, ProgramDetail detail) {
  const State state = StateOf(program);
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
    absl::StrAppend(&text, InstructionText(program, state, instruction, detail),
                    "\n");
  }
  absl::StrAppend(&text, "end{instructions:", program.instructions.size(),
                  "}\n");
  return text;
}

}  // namespace mtf
