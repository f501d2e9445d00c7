// SPDX-License-Identifier: Apache-2.0
//
// What stands behind the operands of an instruction.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layouts/text_items.h"
#include "lowering/program/program_parser.h"

namespace mtf::internal {
namespace {

std::string NoDimension(const ProgramValue& value, absl::string_view name) {
  return absl::StrCat("%", value.name, " has no dimension \"", name,
                      "\", but [", value.shape.ToString(), "]");
}

}  // namespace

ReduceKind ProgramParser::Reduction(LineReader& line) {
  if (line.TakeWord("sum")) return ReduceKind::kSum;
  if (line.TakeWord("max")) return ReduceKind::kMax;
  if (line.TakeWord("min")) return ReduceKind::kMin;
  line.Fail("expected sum, max or min");
  return ReduceKind::kSum;
}

int ProgramParser::DimensionOf(LineReader& line, int value) {
  const std::string name = line.Word();
  if (!line.ok()) return 0;
  const int dim = program_.values[value].shape.Find(name);
  if (dim < 0) line.FailWord(NoDimension(program_.values[value], name));
  return std::max(dim, 0);
}

std::string ProgramParser::OwnDimension(LineReader& line,
                                        const Instruction& instruction) {
  std::string name = line.Word();
  const int value = instruction.opcode == Opcode::kScatterAdd
                        ? instruction.results[0]
                        : instruction.operands[0];
  if (line.ok() && !program_.values[value].shape.Contains(name)) {
    line.FailWord(NoDimension(program_.values[value], name));
  }
  return name;
}

void ProgramParser::Over(LineReader& line, Instruction& instruction) {
  line.Expect("over{");
  ParseAxes(line, ",", instruction.axes);
  line.Expect("}");
}

void ProgramParser::ParseExpression(LineReader& line,
                                    Instruction& instruction) {
  MapExpression& expression = instruction.expression;
  const int operands = static_cast<int>(instruction.operands.size());
  expression.num_operands = operands;
  const DType result = program_.values[instruction.results[0]].dtype;
  if (!line.Take("[")) {
    const absl::StatusOr<ScalarFunction> function =
        ParseScalarFunction(line.Word());
    if (!function.ok()) return line.FailWord(function.status().message());
    const ScalarFunctionInfo& info = InfoOf(*function);
    if (info.arity == 0) {
      return line.FailWord(
          absl::StrCat(info.text,
                       " stands in brackets, as in \"[literal.f32(0.5)]\" or "
                       "\"[iota.i32(length)]\""));
    }
    if (info.arity != operands) {
      return line.FailWord(absl::StrCat(
          info.text, " takes ", Plural(info.arity, "operand"), ", and ",
          OpcodeName(instruction.opcode), " has ", operands));
    }
    expression = MapExpression::Single(*function, result, operands);
    return;
  }
  do {
    MapStep step;
    const absl::StatusOr<ScalarFunction> function =
        ParseScalarFunction(line.Word());
    if (!function.ok()) return line.FailWord(function.status().message());
    step.function = *function;
    const bool typed = *function == ScalarFunction::kCast ||
                       *function == ScalarFunction::kLiteral ||
                       *function == ScalarFunction::kIota;
    if (typed) {
      line.Expect(".");
      step.dtype = ParsedDType(line);
    }
    line.Expect("(");
    if (*function == ScalarFunction::kLiteral) {
      step.literal = line.Real(absl::StrCat("literal.", DTypeName(step.dtype)));
    } else if (*function == ScalarFunction::kIota) {
      step.dimension = line.Word();
    } else {
      const int arity = InfoOf(*function).arity;
      int given = 0;
      do {
        line.Expect("$");
        const int64_t argument = line.Integer();
        if (argument < 0 ||
            argument >=
                operands + static_cast<int64_t>(expression.steps.size())) {
          return line.FailWord(
              absl::StrCat("there is no $", argument,
                           " yet: ", Plural(operands, "operand"), " and ",
                           Plural(static_cast<int64_t>(expression.steps.size()),
                                  "earlier step")));
        }
        if (++given > arity) continue;
        step.arguments.push_back(static_cast<int>(argument));
      } while (line.ok() && line.Take(","));
      if (given != arity) {
        return line.Fail(absl::StrCat(InfoOf(*function).text, " takes ",
                                      Plural(arity, "argument"), ", not ",
                                      given));
      }
    }
    line.Expect(")");
    if (!line.ok()) return;
    if (!typed) step.dtype = StepDType(instruction, step);
    expression.steps.push_back(std::move(step));
  } while (line.Take(";"));
  line.Expect("]");
}

DType ProgramParser::StepDType(const Instruction& instruction,
                               const MapStep& step) const {
  if (InfoOf(step.function).is_comparison) return kBool;
  const int last = step.arguments.back();
  const int operands = static_cast<int>(instruction.operands.size());
  return last < operands ? program_.values[instruction.operands[last]].dtype
                         : instruction.expression.steps[last - operands].dtype;
}

// Whose rules lay out a variable: nothing is said of a parameter.
RuleSection ProgramParser::VariableSection(LineReader& line) {
  if (!line.Take("[")) return RuleSection::kParameters;
  if (!line.TakeWord(RuleSectionName(RuleSection::kOptimizer))) {
    line.FailWord("expected [optimizer], or nothing for a parameter");
    return RuleSection::kParameters;
  }
  line.Expect("]");
  return RuleSection::kOptimizer;
}

void ProgramParser::ParseAttributes(LineReader& line,
                                    Instruction& instruction) {
  const int first = instruction.operands.empty() ? -1 : instruction.operands[0];
  switch (instruction.opcode) {
    case Opcode::kInput:
    case Opcode::kOutput:
      instruction.symbol = line.Name();
      break;
    case Opcode::kReadVariable:
    case Opcode::kWriteVariable: {
      instruction.symbol = line.Name();
      const RuleSection section = VariableSection(line);
      if (!line.ok()) return;
      const ProgramValue& value = program_.values[instruction.results[0]];
      const auto [place, is_new] =
          variables_.try_emplace(instruction.symbol, program_.variables.size());
      if (is_new) {
        program_.variables.push_back({instruction.symbol, value.dtype,
                                      value.shape, value.layout, section});
      } else if (program_.variables[place->second].section != section) {
        line.Fail(absl::StrCat("variable \"", instruction.symbol,
                               "\" is of another section above"));
      }
      break;
    }
    case Opcode::kConstant:
      line.Expect("{");
      while (line.ok() && !line.Take("}")) {
        instruction.data.push_back(line.Real("constant"));
        if (!line.Take(",")) {
          line.Expect("}");
          break;
        }
      }
      if (line.ok() &&
          static_cast<int64_t>(instruction.data.size()) !=
              program_.values[instruction.results[0]].shape.num_elements()) {
        const ProgramValue& value = program_.values[instruction.results[0]];
        line.Fail(absl::StrCat("constant has one number per element: %",
                               value.name, " has ", value.shape.num_elements(),
                               ", not ", instruction.data.size()));
      }
      break;
    case Opcode::kRandom:
      if (!line.TakeWord("uniform")) {
        line.Expect("normal");
        instruction.random_kind = RandomKind::kNormal;
      }
      line.Expect("stream");
      instruction.stream = static_cast<uint32_t>(
          line.Integer(0, std::numeric_limits<uint32_t>::max()));
      instruction.per_step = line.TakeWord("per_step");
      break;
    case Opcode::kMap:
      ParseExpression(line, instruction);
      break;
    case Opcode::kEinsum:
      line.Expect("sum{");
      ParseSummed(line, instruction);
      if (line.Take("by{")) ParsePlan(line);
      break;
    case Opcode::kReduce: {
      instruction.reduce_kind = Reduction(line);
      if (line.AtEnd() || line.Sees("for{") || line.Sees("at ")) {
        if (instruction.operands.size() != 1) {
          return line.Fail(absl::StrCat(
              "reduce of ",
              Plural(static_cast<int64_t>(instruction.operands.size()),
                     "operand"),
              " needs an expression, as in \"sum mul over [b:8]\""));
        }
        const ProgramValue& value = program_.values[first];
        instruction.expression =
            MapExpression::Single(ScalarFunction::kIdentity, value.dtype, 1);
        instruction.iteration = value.shape;
        instruction.iteration_layout = value.layout.Reduced();
        instruction.iteration_local = given_extents_[first];
      } else {
        ParseExpression(line, instruction);
        line.Expect("over");
        ParsedType type;
        ParseDimensions(line, type);
        instruction.iteration = type.shape;
        instruction.iteration_layout = type.layout;
        instruction.iteration_local = type.local;
      }
      break;
    }
    case Opcode::kSlice:
      instruction.dimension = line.Word();
      line.Expect("begin");
      instruction.begin = line.Integer();
      break;
    case Opcode::kPad:
      instruction.dimension = line.Word();
      line.Expect("before");
      instruction.begin = line.Integer();
      line.Expect("fill");
      instruction.fill = line.Real("pad");
      break;
    case Opcode::kConcat:
    case Opcode::kGather:
    case Opcode::kScatterAdd:
    case Opcode::kTopK:
      instruction.dimension = OwnDimension(line, instruction);
      break;
    case Opcode::kReduceBlocks:
    case Opcode::kScan:
      instruction.reduce_kind = Reduction(line);
      instruction.dimension = OwnDimension(line, instruction);
      if (instruction.opcode == Opcode::kScan) {
        instruction.exclusive = line.TakeWord("exclusive");
        instruction.reverse = line.TakeWord("reverse");
      }
      break;
    case Opcode::kMask:
      do {
        instruction.mask_dims.push_back(DimensionOf(line, first));
      } while (line.ok() && line.Take(","));
      line.Expect("fill");
      instruction.fill = line.Real("mask");
      break;
    case Opcode::kReshape:
    case Opcode::kReshard:
    case Opcode::kWait:
      break;
    case Opcode::kAllReduce:
      instruction.reduce_kind = Reduction(line);
      Over(line, instruction);
      break;
    case Opcode::kAllGather:
    case Opcode::kAllSlice:
      instruction.dim = DimensionOf(line, first);
      Over(line, instruction);
      break;
    case Opcode::kReduceScatter:
      instruction.reduce_kind = Reduction(line);
      instruction.dim = DimensionOf(line, first);
      // Those of further operands follow from their layouts.
      for (size_t i = 1; i < instruction.operands.size() && line.ok(); ++i) {
        line.Expect(",");
        DimensionOf(line, instruction.operands[i]);
      }
      Over(line, instruction);
      break;
    case Opcode::kAllToAll:
      instruction.from_dim = DimensionOf(line, first);
      line.Expect("to");
      instruction.dim = DimensionOf(line, first);
      Over(line, instruction);
      break;
    case Opcode::kCollectivePermute:
      Over(line, instruction);
      break;
  }
}

void ProgramParser::ParseSummed(LineReader& line,
                                const Instruction& instruction) {
  std::vector<std::string> said, meant;
  while (line.ok() && !line.Take("}")) {
    said.push_back(line.Word());
    line.Take(",");
  }
  const Shape& kept = program_.values[instruction.results[0]].shape;
  for (int operand : instruction.operands) {
    for (const Dimension& dim : program_.values[operand].shape) {
      if (!kept.Contains(dim.name)) meant.push_back(dim.name);
    }
  }
  for (std::vector<std::string>* names : {&said, &meant}) {
    std::sort(names->begin(), names->end());
    names->erase(std::unique(names->begin(), names->end()), names->end());
  }
  if (line.ok() && said != meant) {
    line.FailWord(absl::StrCat("the result leaves out other dimensions: sum{",
                               absl::StrJoin(meant, ", "), "}"));
  }
}

void ProgramParser::ParsePlan(LineReader& line) {
  ParsedProgram::EinsumText given;
  given.instruction = program_.instructions.size();
  given.place = line.Place();
  while (line.ok() && !line.Take("}")) {
    absl::StrAppend(&given.plan, given.plan.empty() ? "" : " ", line.Word());
  }
  if (line.ok()) plans_.push_back(std::move(given));
}

}  // namespace mtf::internal
