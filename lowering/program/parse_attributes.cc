// SPDX-License-Identifier: Apache-2.0
//
// ProgramParser: the attributes of an instruction, struct by struct in the
// order of print_attributes.cc, which writes them.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <variant>
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

int ProgramParser::DimensionIndexOf(LineReader& line, int value) {
  const std::string name = line.Word();
  if (!line.ok()) return 0;
  const int dim = program_.values[value].shape.Find(name);
  if (dim < 0) line.FailWord(NoDimension(program_.values[value], name));
  return std::max(dim, 0);
}

std::string ProgramParser::DimensionNameOf(LineReader& line, int value) {
  std::string name = line.Word();
  if (line.ok() && !program_.values[value].shape.Contains(name)) {
    line.FailWord(NoDimension(program_.values[value], name));
  }
  return name;
}

AxisList ProgramParser::Over(LineReader& line) {
  AxisList axes;
  line.Expect("over{");
  ParseAxes(line, ",", axes);
  line.Expect("}");
  return axes;
}

void ProgramParser::ParseExpression(LineReader& line,
                                    const Instruction& instruction,
                                    MapExpression& expression) {
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
                       " must be in brackets, as in \"[literal.f32(0.5)]\" or "
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
    if (!typed) step.dtype = StepDType(instruction, expression, step);
    expression.steps.push_back(std::move(step));
  } while (line.Take(";"));
  line.Expect("]");
}

DType ProgramParser::StepDType(const Instruction& instruction,
                               const MapExpression& expression,
                               const MapStep& step) const {
  if (InfoOf(step.function).is_comparison) return kBool;
  const int last = step.arguments.back();
  const int operands = static_cast<int>(instruction.operands.size());
  return last < operands ? program_.values[instruction.operands[last]].dtype
                         : expression.steps[last - operands].dtype;
}

ProgramParser::VariableIs ProgramParser::ParseVariableMark(LineReader& line) {
  VariableIs is;
  if (!line.Take("[")) return is;
  for (RuleSection section : {RuleSection::kOptimizer, RuleSection::kDefault}) {
    if (!line.TakeWord(VariableMark(section))) continue;
    is.section = section;
    break;
  }
  is.offloaded = line.TakeWord("offload");
  if (!is.offloaded && is.section == RuleSection::kParameters) {
    line.FailWord(
        "expected [optimizer], [state], or either or none of them before "
        "\"offload\", or nothing for a parameter");
  }
  line.Expect("]");
  return is;
}

void ProgramParser::AddVariable(LineReader& line, const ProgramValue& value,
                                const std::string& name, VariableIs is) {
  const auto [known, is_new] =
      variables_.try_emplace(name, program_.variables.size());
  if (is_new) {
    program_.variables.push_back({name, value.dtype, value.shape, value.layout,
                                  is.section, is.offloaded});
    return;
  }
  const ProgramVariable& variable = program_.variables[known->second];
  if (variable.section != is.section) {
    line.Fail(
        absl::StrCat("variable \"", name, "\" has another section above"));
  } else if (variable.offloaded != is.offloaded) {
    line.Fail(absl::StrCat("variable \"", name, "\" is ",
                           is.offloaded ? "not offloaded" : "offloaded",
                           " above"));
  }
}

void ProgramParser::ParseAttributes(LineReader& line,
                                    Instruction& instruction) {
  std::visit([&](auto& attributes) { Parse(line, instruction, attributes); },
             instruction.attributes);
}

void ProgramParser::Parse(LineReader& line, const Instruction& instruction,
                          MapAttributes& map) {
  ParseExpression(line, instruction, map.expression);
}

void ProgramParser::Parse(LineReader&, const Instruction&, NoAttributes&) {}

void ProgramParser::Parse(LineReader& line, const Instruction& instruction,
                          NameAttributes& named) {
  named.name = line.Name();
  if (instruction.opcode != Opcode::kReadVariable &&
      instruction.opcode != Opcode::kWriteVariable) {
    return;
  }
  const VariableIs is = ParseVariableMark(line);
  if (!line.ok()) return;
  AddVariable(line, program_.values[instruction.results[0]], named.name, is);
}

void ProgramParser::Parse(LineReader& line, const Instruction& instruction,
                          ConstantAttributes& constant) {
  line.Expect("{");
  while (line.ok() && !line.Take("}")) {
    constant.elements.push_back(line.Real("constant"));
    if (!line.Take(",")) {
      line.Expect("}");
      break;
    }
  }
  const ProgramValue& value = program_.values[instruction.results[0]];
  if (line.ok() && static_cast<int64_t>(constant.elements.size()) !=
                       value.shape.num_elements()) {
    line.Fail(absl::StrCat("constant has one number per element: %", value.name,
                           " has ", value.shape.num_elements(), ", not ",
                           constant.elements.size()));
  }
}

void ProgramParser::Parse(LineReader& line, const Instruction&,
                          RandomAttributes& random) {
  if (!line.TakeWord("uniform")) {
    line.Expect("normal");
    random.kind = RandomKind::kNormal;
  }
  line.Expect("stream");
  random.stream = static_cast<uint32_t>(
      line.Integer(0, std::numeric_limits<uint32_t>::max()));
  random.per_step = line.TakeWord("per_step");
}

// The plan in the text is kept and compared once einsums are planned.
void ProgramParser::Parse(LineReader& line, const Instruction& instruction,
                          EinsumAttributes&) {
  line.Expect("sum{");
  ParseSummed(line, instruction);
  if (line.Take("by{")) ParsePlan(line);
}

void ProgramParser::Parse(LineReader& line, const Instruction& instruction,
                          ReduceAttributes& reduce) {
  reduce.kind = Reduction(line);
  const bool is_plain = line.AtEnd() || line.Sees("for{") || line.Sees("at ");
  if (!is_plain) {
    ParseExpression(line, instruction, reduce.expression);
    line.Expect("over");
    ParsedType type;
    ParseDimensions(line, type);
    reduce.iteration = type.shape;
    reduce.iteration_layout = type.layout;
    reduce.iteration_local = type.local;
    return;
  }
  if (instruction.operands.size() != 1) {
    return line.Fail(absl::StrCat(
        "reduce of ",
        Plural(static_cast<int64_t>(instruction.operands.size()), "operand"),
        " needs an expression, as in \"sum mul over [b:8]\""));
  }
  const int operand = instruction.operands[0];
  const ProgramValue& value = program_.values[operand];
  reduce.expression =
      MapExpression::Single(ScalarFunction::kIdentity, value.dtype, 1);
  reduce.iteration = value.shape;
  reduce.iteration_layout = value.layout.Reduced();
  reduce.iteration_local = given_extents_[operand];
}

void ProgramParser::Parse(LineReader& line, const Instruction&,
                          SliceAttributes& slice) {
  slice.dimension = line.Word();
  line.Expect("begin");
  slice.begin = line.Integer();
}

void ProgramParser::Parse(LineReader& line, const Instruction&,
                          PadAttributes& pad) {
  pad.dimension = line.Word();
  line.Expect("before");
  pad.before = line.Integer();
  line.Expect("fill");
  pad.fill = line.Real("pad");
}

void ProgramParser::Parse(LineReader& line, const Instruction& instruction,
                          ConcatAttributes& concat) {
  concat.dimension = DimensionNameOf(line, instruction.operands[0]);
}

void ProgramParser::Parse(LineReader& line, const Instruction&,
                          RowsAttributes& rows) {
  rows.dimension = line.Word();
  line.Expect("from{");
  do {
    rows.sizes.push_back(line.Integer(0));
    line.Expect("at");
    rows.offsets.push_back(line.Integer());
    rows.replicated.push_back(line.TakeWord("replicated"));
  } while (line.ok() && line.Take(","));
  line.Expect("}");
  line.Expect("to");
  rows.windows = line.Integer(0);
  if (line.TakeWord("stride")) rows.stride = line.Integer(1);
  if (line.TakeWord("span")) rows.span = line.Integer(0);
  rows.wrap = line.TakeWord("wrap");
  rows.adds = line.TakeWord("adds");
  if (line.TakeWord("fill")) rows.fill = line.Real("place_rows");
  if (line.TakeWord("round")) {
    rows.round =
        static_cast<int>(line.Integer(0, std::numeric_limits<int>::max()));
  }
  if (line.Sees("over{")) rows.axes = Over(line);
}

void ProgramParser::Parse(LineReader& line, const Instruction&,
                          WindowAttributes& windows) {
  windows.dimension = line.Word();
  line.Expect(",");
  windows.window = line.Word();
  line.Expect("of");
  windows.line = line.Word();
  if (line.TakeWord("stride")) windows.stride = line.Integer(1);
  if (line.TakeWord("dilation")) windows.dilation = line.Integer(1);
}

// The table is the first operand of a gather and the result of a scatter_add.
void ProgramParser::Parse(LineReader& line, const Instruction& instruction,
                          GatherAttributes& gather) {
  const int table = instruction.opcode == Opcode::kScatterAdd
                        ? instruction.results[0]
                        : instruction.operands[0];
  gather.dimension = DimensionNameOf(line, table);
}

void ProgramParser::Parse(LineReader& line, const Instruction&,
                          CheckIndexAttributes& check) {
  check.rows = line.Integer(0);
  line.Expect("of");
  check.dimension = line.Word();
  line.Expect(":");
  check.size = line.Integer(0);
}

void ProgramParser::Parse(LineReader& line, const Instruction& instruction,
                          DynamicSliceAttributes& slice) {
  slice.dimension = DimensionNameOf(line, instruction.operands[0]);
}

void ProgramParser::Parse(LineReader& line, const Instruction& instruction,
                          ScanAttributes& scan) {
  scan.kind = Reduction(line);
  scan.dimension = DimensionNameOf(line, instruction.operands[0]);
  scan.exclusive = line.TakeWord("exclusive");
  scan.reverse = line.TakeWord("reverse");
}

void ProgramParser::Parse(LineReader& line, const Instruction& instruction,
                          ReduceBlocksAttributes& blocks) {
  blocks.kind = Reduction(line);
  blocks.dimension = DimensionNameOf(line, instruction.operands[0]);
}

void ProgramParser::Parse(LineReader& line, const Instruction& instruction,
                          TopKAttributes& top_k) {
  top_k.dimension = DimensionNameOf(line, instruction.operands[0]);
  top_k.least = line.TakeWord("least");
}

void ProgramParser::Parse(LineReader& line, const Instruction& instruction,
                          AttentionAttributes& attention) {
  AttentionSpec& spec = attention.spec;
  const auto& operands = instruction.operands;
  spec.length = DimensionNameOf(line, operands[0]);
  line.Expect("to");
  spec.memory_length = DimensionNameOf(line, operands[1]);
  line.Expect("over");
  spec.d_kv = DimensionNameOf(line, operands[0]);
  line.Expect("values");
  spec.d_v = DimensionNameOf(line, operands[2]);
  line.Expect("scale");
  spec.scale = line.Real("attention");
  if (line.TakeWord("soft_cap")) spec.soft_cap = line.Real("attention");
  spec.causal = line.TakeWord("causal");
  if (line.TakeWord("window")) spec.window = line.Integer(1);
  if (line.TakeWord("dropout")) {
    spec.dropout = line.Real("attention");
    line.Expect("stream");
    spec.stream = static_cast<uint32_t>(
        line.Integer(0, std::numeric_limits<uint32_t>::max()));
  }
  attention.mask = line.TakeWord("mask");
  attention.bias = line.TakeWord("bias");
  attention.offset = line.TakeWord("offset");
  attention.extra_logit = line.TakeWord("extra_logit");
  attention.logsumexp_gradient = line.TakeWord("logsumexp_gradient");
  attention.bias_gradient = line.TakeWord("bias_gradient");
  attention.extra_logit_gradient = line.TakeWord("extra_logit_gradient");
  attention.ring = line.TakeWord("ring");
  if (attention.ring) attention.shift = line.Integer(0);
  attention.striped = line.TakeWord("striped");
  attention.continues = line.TakeWord("continues");
}

void ProgramParser::Parse(LineReader& line, const Instruction& instruction,
                          MaskAttributes& mask) {
  do {
    mask.dims.push_back(DimensionIndexOf(line, instruction.operands[0]));
  } while (line.ok() && line.Take(","));
  line.Expect("fill");
  mask.fill = line.Real("mask");
}

void ProgramParser::Parse(LineReader& line, const Instruction& instruction,
                          CollectiveAttributes& collective) {
  const auto& operands = instruction.operands;
  switch (instruction.opcode) {
    case Opcode::kAllReduce:
      collective.reduction = Reduction(line);
      break;
    case Opcode::kReduceScatter:
      collective.reduction = Reduction(line);
      collective.dim = DimensionIndexOf(line, operands[0]);
      // Those of further operands follow from their layouts.
      for (size_t i = 1; i < operands.size() && line.ok(); ++i) {
        line.Expect(",");
        DimensionIndexOf(line, operands[i]);
      }
      break;
    case Opcode::kAllToAll:
      collective.dim = DimensionIndexOf(line, operands[0]);
      if (line.TakeWord("into")) {
        collective.stripes = CollectiveAttributes::Stripes::kForm;
      } else if (line.TakeWord("from")) {
        collective.stripes = CollectiveAttributes::Stripes::kDissolve;
      }
      if (collective.stripes != CollectiveAttributes::Stripes::kNone) {
        line.Expect("stripes");
        break;
      }
      collective.from_dim = collective.dim;
      line.Expect("to");
      collective.dim = DimensionIndexOf(line, operands[0]);
      break;
    case Opcode::kCollectivePermute:
      if (line.TakeWord("shift")) {
        collective.shift = line.Integer(1);
      } else if (line.Take("from{")) {
        do {
          collective.sources.push_back(line.Integer(0));
        } while (line.ok() && line.Take(","));
        line.Expect("}");
      }
      break;
    default:  // all_gather, all_slice
      collective.dim = DimensionIndexOf(line, operands[0]);
      break;
  }
  collective.axes = Over(line);
  collective.asynchronous = line.TakeWord("asynchronous");
  if (line.TakeWord("beside")) {
    line.Fail("\"beside\" is now \"asynchronous\"",
              "write \"asynchronous\" in its place");
  }
}

void ProgramParser::ParseSummed(LineReader& line,
                                const Instruction& instruction) {
  std::vector<std::string> stated, expected;
  while (line.ok() && !line.Take("}")) {
    stated.push_back(line.Word());
    line.Take(",");
  }
  const Shape& kept = program_.values[instruction.results[0]].shape;
  for (int operand : instruction.operands) {
    for (const Dimension& dim : program_.values[operand].shape) {
      if (!kept.Contains(dim.name)) expected.push_back(dim.name);
    }
  }
  for (std::vector<std::string>* names : {&stated, &expected}) {
    std::sort(names->begin(), names->end());
    names->erase(std::unique(names->begin(), names->end()), names->end());
  }
  if (line.ok() && stated != expected) {
    line.FailWord(absl::StrCat("the result leaves out other dimensions: sum{",
                               absl::StrJoin(expected, ", "), "}"));
  }
}

void ProgramParser::ParsePlan(LineReader& line) {
  ParsedProgram::EinsumText given;
  given.instruction = program_.instructions.size();
  given.position = line.Position();
  while (line.ok() && !line.Take("}")) {
    absl::StrAppend(&given.plan, given.plan.empty() ? "" : " ", line.Word());
  }
  if (line.ok()) plans_.push_back(std::move(given));
}

}  // namespace mtf::internal
