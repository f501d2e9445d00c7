// SPDX-License-Identifier: Apache-2.0
//
// The text form, both ways: what is printed reads back as itself, and what is
// no program is an error with its place.
#include <cmath>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "lowering/count_costs.h"
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

void ExpectReadsBack(const std::string& text) {
  const absl::StatusOr<Program> program = ParseProgram(text);
  ASSERT_OK(program);
  EXPECT_EQ(absl::StrCat("\n", PrintProgram(*program)), text);
}

// Every instruction with all of its attributes, before any shard has extents.
constexpr char kEveryInstruction[] = R"(
mesh{data:2, model:2}
%tokens : i32[batch:8/data, length:6] = input tokens
%w : f32[vocab:10/model, d:4] = read_variable embedding/table
%c : f32[length:6] = constant {0, 0.1, -1.5, 1e+30, inf, -inf}
%u : f32[batch:8/data, d:4] = random uniform stream 3 per_step
%n : f32[batch:8/data, d:4] = random normal stream 4294967295
%one : f32[] = map [literal.f32(0.12345678901234568)]
%i : i32[length:6] = map [iota.i32(length)]
%x : f32[batch:8/data, length:6, d:4] unreduced{model} = gather(%w, %tokens) vocab
%x.sum : f32[batch:8/data, length:6, d:4] = reshard(%x)
%g : f32[batch:8/data, length:6, d:4] = map(%x.sum) gelu
%h : bf16[batch:8/data, length:6, d:4] = map(%g, %u, %one) [add($0, $1); mul($3, $2); cast.bf16($4)]
%m : f32[batch:8/data, length:6] = reduce(%g) max
%s : f32[d:4] unreduced{data} = reduce(%g) sum
%s.sum : f32[d:4] = all_reduce(%s) sum over{data}
%t : f32[length:6, d:4] unreduced{data} min = reduce(%g) min
%t.min : f32[length:6, d:4] = all_reduce(%t) min over{data}
%e : f32[batch:8/data, length:6] = einsum(%g, %n) sum{d}
%r : f32[batch:8/data, k:24] = reshape(%g)
%sl : f32[batch:8/data, k:5] = slice(%r) k begin 3
%p : f32[batch:8/data, k:9] = pad(%sl) k before 1 fill -0.5
%cc : f32[batch:8/data, k:14] = concat(%sl, %p) k
%mk : f32[batch:8/data, k:14] = mask(%cc) batch, k fill 0
%sc : f32[vocab:10/model, d:4] unreduced{data} = scatter_add(%g, %tokens) vocab
%sc.sum : f32[vocab:10/model, d:4] = all_reduce(%sc) sum over{data}
%d : f32[d:4] unreduced{data} = reduce(%n) sum
%d.cut : f32[d:4/data] = reduce_scatter(%d) sum d over{data}
%d.all : f32[d:4] = all_gather(%d.cut) d over{data}
%d.own : f32[d:4/model] = all_slice(%d.all) d over{model}
%a : f32[batch:8, d:4/data] = all_to_all(%u) batch to d over{data}
%b : f32[batch:8, d:4/model] = collective_permute(%a) over{data, model}
%w.new : f32[vocab:10/model, d:4] = write_variable(%sc.sum) embedding/table
output(%e) loss
output(%h) h
)";

TEST(ProgramText, EveryInstructionReadsBack) {
  ExpectReadsBack(kEveryInstruction);
}

TEST(ProgramText, SumsOverSeveralValuesReadBack) {
  ExpectReadsBack(R"(
mesh{data:2}
%x : f32[b:8/data, h:16, k:4] = input x
%a : f32[h:16] unreduced{data} = reduce(%x) sum
%b : f32[h:16, k:4] unreduced{data} = reduce(%x) sum
%c : f32[] unreduced{data} = reduce(%x) sum
%d : f32[] unreduced{data} = reduce(%x) sum
%c.sum : f32[], %d.sum : f32[] = all_reduce(%c, %d) sum over{data}
%a.cut : f32[h:16/data], %b.cut : f32[h:16, k:4/data] = reduce_scatter(%a, %b) sum h, k over{data}
output(%c.sum) c
output(%d.sum) d
output(%a.cut) a
output(%b.cut) b
)");
}

// Users may call a tensor what they like; what is no plain name is in quotes.
TEST(ProgramText, AnyNameReadsBack) {
  ExpectReadsBack(R"(
mesh{data:2}
%"my\040layer/w\040=\0401" : f32[b:8/data] = read_variable "my\040layer/w\040=\0401"
%"\"quoted\\\"" : f32[b:8/data] = map(%"my\040layer/w\040=\0401") gelu
%"\303\251" : f32[b:8/data] = map(%"\"quoted\\\"") gelu
output(%"\303\251") "(a,\040b)\040:\040c"
)");
}

// What explains a program without its graph.
TEST(ProgramText, RulesCausesAndOriginsReadBack) {
  const std::string text = R"(
mesh{data:2, model:2}
rule d_ff:model from "preset megatron:8"
rule [parameters] d_model:data+model from "--layout, rule 2 of 3"
rule [parameters gathered_once] vocab:data from "--layout, rule 3 of 3"
%x : f32[b:8/data, d_ff:16/model] = input x at x lm.cc:3
%m : f32[b:8/data] unreduced{model} = reduce(%x) sum at layer_0/sum lm.cc:4
%s : f32[b:8/data] = all_reduce(%m) sum over{model} for{d_ff/model rule 0} at layer_0/sum lm.cc:4
%t : f32[b:8] = all_gather(%s) b over{data} for{b/data} at "my\040sum" "a\040b":7
output(%t) at
)";
  const absl::StatusOr<Program> program = ParseProgram(text);
  ASSERT_OK(program);
  EXPECT_EQ(
      absl::StrCat("\n", PrintProgram(*program, ProgramDetail::kWithOrigins)),
      text);
  ASSERT_EQ(program->rules.size(), 3u);
  EXPECT_EQ(program->rules[1].origin, "--layout, rule 2 of 3");
  EXPECT_FALSE(program->rules[1].gathered_once);
  EXPECT_TRUE(program->rules[2].gathered_once);
  EXPECT_EQ(program->origins.size(), 3u);
  const std::vector<CollectiveCost> costs = ListCollectives(*program);
  ASSERT_EQ(costs.size(), 2u);
  EXPECT_EQ(costs[0].rule, "d_ff:model");
  EXPECT_EQ(costs[0].rule_origin, "preset megatron:8");
  EXPECT_EQ(costs[0].site.ToString(), "lm.cc:4");
  EXPECT_EQ(costs[1].dimension, "b");
  EXPECT_EQ(costs[1].rule, "");
}

TEST(ProgramText, WrongOriginsAreErrors) {
  const std::string program = "mesh{data:2}\n%x : f32[b:8/data] = input x";
  for (const auto& [end, error] :
       std::vector<std::pair<std::string, std::string>>{
           {" for{b/data rule 0}", "the number is out of range"},
           {" for{b/model}", "the mesh has no axis \"model\""},
           {" for{b}", "expected \"/\""},
           {" at x", "expected a name"},
           {" at x lm.cc", "expected \":\""},
           {" at x lm.cc:-1", "the number is out of range"}}) {
    EXPECT_THAT(ErrorText(ParseProgram(program + end).status()),
                HasSubstr(error));
  }
  EXPECT_THAT(
      ErrorText(ParseProgram("mesh{data:2}\nrule [params] a:data from \"x\"")
                    .status()),
      HasSubstr("no such section of a layout"));
}

TEST(ProgramText, LinesMayEndAsOnWindows) {
  const std::string text = kEveryInstruction;
  EXPECT_EQ(
      PrintProgram(*ParseProgram(absl::StrReplaceAll(text, {{"\n", "\r\n"}}))),
      PrintProgram(*ParseProgram(text)));
}

TEST(ProgramText, AnOpenQuoteIsAnError) {
  EXPECT_THAT(
      ErrorText(ParseProgram("mesh{data:2}\n%\"x : f32[] = input x").status()),
      HasSubstr("line 2, column 2: expected a name in quotes"));
}

TEST(ProgramText, ExtentsPlansAndPlacesReadBack) {
  ExpectReadsBack(R"(
mesh{data:2, model:2}
grains{h:data}
buffers{arena:2304, commit:6}
%x : f32[b:13/data=7, h:5/model=4] @0 = input x
%w : f32[h:5/model=4, o:4] @w = read_variable w
%y : f32[b:13/data=7, o:4] unreduced{model} @1024 = einsum(%x, %w) sum{h} by{m 7 n 4 k 4}
%y.sum : f32[b:13/data=7, o:4] @1024 = all_reduce(%y) sum over{model}
%r : f32[c:13/data=7, o:4] = reshape(%y.sum)
%s : f32[b:13/data=7] unreduced{model} @2048 = reduce(%x) sum square over [b:13/data=7, h:5/model=4]
%s.sum : f32[b:13/data=7] @2048 = all_reduce(%s) sum over{model}
output(%r) y
output(%s.sum) s
)");
}

TEST(ProgramText, EveryScalarFunctionReadsBack) {
  for (int i = 0; i <= static_cast<int>(ScalarFunction::kSelect); ++i) {
    const ScalarFunctionInfo& info = InfoOf(static_cast<ScalarFunction>(i));
    const bool logical = info.domain == FunctionDomain::kLogical;
    std::string operands;
    for (int k = 0; k < info.arity; ++k) {
      const bool condition = info.function == ScalarFunction::kSelect && k == 0;
      absl::StrAppend(&operands, k > 0 ? ", " : "",
                      condition || logical ? "%b" : "%x");
    }
    const bool gives_bool = info.is_comparison || logical;
    ExpectReadsBack(absl::StrCat(
        "\nmesh{}\n%x : f32[d:3] = input x\n%b : bool[d:3] = input b\n%y : ",
        gives_bool ? "bool" : "f32", "[d:3] = map(", operands, ") ", info.text,
        "\noutput(%y) y\n"));
  }
}

TEST(ProgramText, EveryDTypeReadsBack) {
  for (DType dtype : kAllDTypes) {
    const absl::string_view name = DTypeName(dtype);
    ExpectReadsBack(absl::StrCat("\nmesh{}\n%x : ", name,
                                 "[d:3] = input x\n%f : f32[d:3] = input f\n",
                                 "%y : ", name, "[d:3] = map(%f) [cast.", name,
                                 "($0)]\noutput(%y) y\n"));
  }
}

TEST(ProgramText, NumbersKeepEveryBit) {
  using Limits = std::numeric_limits<double>;
  for (double number :
       {0.0, -0.0, 0.1, 1.0 / 3, -2.5, 1e300, 6.02214076e23, Limits::max(),
        Limits::min(), Limits::denorm_min(), 9007199254740993.0,
        Limits::infinity(), -Limits::infinity()}) {
    Program program;
    const int value = program.AddValue("c", kFloat32, {{"d", 1}},
                                       TensorLayout::Replicated(1));
    Instruction constant;
    constant.opcode = Opcode::kConstant;
    constant.data = {number};
    constant.results = {value};
    program.instructions.push_back(constant);
    const absl::StatusOr<Program> parsed = ParseProgram(PrintProgram(program));
    ASSERT_OK(parsed) << PrintProgram(program);
    const double read = parsed->instructions[0].data[0];
    EXPECT_EQ(read, number) << PrintProgram(program);
    EXPECT_EQ(std::signbit(read), std::signbit(number));
  }
}

TEST(ProgramText, CommentsBlankLinesAndSpacesMeanNothing) {
  EXPECT_EQ(AfterPasses({}, R"(

# A program of one map.
mesh{ x:2 ,y:2 }

%a:f32[ b : 8/x ,c:4 ]=input a
  # no comment inside an instruction, but here
)"),
            "INVALID_ARGUMENT line 7, column 3: unexpected text at \"# no "
            "comment inside \"");
  EXPECT_EQ(AfterPasses({}, R"(

# A program of one map.
mesh{ x:2 ,y:2 }

%a:f32[ b : 8/x ,c:4 ]=input a
# One more.
   # And one that is indented.
%y : f32[b:8/x, c:4]
        = map( %a )
  relu
)"),
            R"(
mesh{x:2, y:2}
%a : f32[b:8/x, c:4] = input a
%y : f32[b:8/x, c:4] = map(%a) relu
)");
}

TEST(ProgramText, LinesAreUnder120Columns) {
  absl::StatusOr<Program> program = ParseProgram("mesh{data:2, model:2}\n");
  ASSERT_OK(program);
  // Nine values joined make a line that must be broken.
  Instruction joined;
  joined.opcode = Opcode::kConcat;
  joined.dimension = "batch";
  for (int i = 0; i < 9; ++i) {
    const int value = program->AddValue(
        absl::StrCat("layer_", i, "/attention/dot_product/value_", i), kFloat32,
        {{"batch", 8}}, TensorLayout::Replicated(1));
    Instruction input;
    input.opcode = Opcode::kInput;
    input.symbol = absl::StrCat("x", i);
    input.results = {value};
    program->instructions.push_back(input);
    joined.operands.push_back(value);
  }
  joined.results = {program->AddValue("y", kFloat32, {{"batch", 72}},
                                      TensorLayout::Replicated(1))};
  program->instructions.push_back(joined);
  const std::string printed = PrintProgram(*program);
  size_t begin = 0;
  for (size_t end; (end = printed.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    EXPECT_LT(end - begin, 120u) << printed.substr(begin, end - begin);
  }
  EXPECT_THAT(printed, HasSubstr("\n    "));
  const absl::StatusOr<Program> parsed = ParseProgram(printed);
  ASSERT_OK(parsed);
  EXPECT_EQ(PrintProgram(*parsed), printed);
}

TEST(ProgramText, GrainsThatNoValueShowsAreSaid) {
  const std::string text = R"(
mesh{data:2, model:4}
grains{b:model, h:data+model}
%x : f32[b:13/data, h:3] = input x
output(%x) x
)";
  ExpectReadsBack(text);
  EXPECT_EQ(AfterPass("shard_shapes", text), R"(
mesh{data:2, model:4}
grains{b:model, h:data+model}
%x : f32[b:13/data=8, h:3=8] = input x
output(%x) x
)");
}

struct ParseError {
  const char* name;
  std::string text;
  std::string message;  // its first line
  friend std::ostream& operator<<(std::ostream& out, const ParseError& error) {
    return out << error.name;
  }
};

std::vector<ParseError> ParseErrors() {
  const std::string mesh = "mesh{x:2, y:2}\n";
  const std::string value = mesh + "%a : f32[b:8/x, c:4] = input a\n";
  return {
      {"NoMesh", "", "line 1, column 1: the text has no mesh{...}"},
      {"MeshNotFirst", "%a : f32[b:8/x, c:4] = input a\n" + mesh,
       "line 1, column 1: the first line is mesh{...}, not this at \"%a : "
       "f32[b:8/x, c:4]\""},
      {"MeshTwice", mesh + mesh,
       "line 2, column 5: the mesh is given twice at \"{x:2, y:2}\""},
      {"MeshUnclosed", "mesh{x:2",
       "line 1, column 9: expected a name at the end of the line"},
      {"MeshWithoutSize", "mesh{x}",
       "line 1, column 7: expected \":\" at \"}\""},
      {"MeshOfSizeZero", "mesh{x:0}",
       "line 1, column 10: mesh item \"x:0\" has a size below 1 (item 1 of 1, "
       "characters 1-3) at the end of the line"},
      {"MeshAxisTwice", "mesh{x:2, x:2}",
       "line 1, column 15: mesh item \"x:2\" names the axis of item 1 again "
       "(item 2 of 2, characters 5-7) at the end of the line"},
      {"MeshTooLarge", "mesh{x:99999, y:99999}",
       "line 1, column 23: mesh item \"y:99999\" makes more than 2147483647 "
       "devices (item 2 of 2, characters 9-15) at the end of the line"},
      {"MeshSizeBeyondEveryNumber", "mesh{x:99999999999999999999}",
       "line 1, column 8: expected a whole number at \"99999999999999999999\""},
      {"MeshOfNineAxes", "mesh{a:1,b:1,c:1,d:1,e:1,f:1,g:1,h:1,i:1}",
       "line 1, column 42: mesh item \"i:1\" is one axis too many: a mesh has "
       "at most 8 (item 9 of 9, characters 33-35) at the end of the line"},
      {"GrainsOfUnknownAxis", mesh + "grains{b:z}\n",
       "line 2, column 10: the mesh has no axis \"z\" at \"z}\""},
      {"BuffersNegative", mesh + "buffers{arena:-1, commit:0}\n",
       "line 2, column 15: the number is out of range at \"-1, commit:0}\""},
      {"BuffersHuge", mesh + "buffers{arena:0, commit:99999999999}\n",
       "line 2, column 25: the number is out of range at \"99999999999}\""},
      {"NoColon", mesh + "%a f32[b:8] = input a\n",
       "line 2, column 4: expected \":\" at \"f32[b:8] = input a\""},
      {"NoType", mesh + "%a : = input a\n",
       "line 2, column 6: expected a name at \"= input a\""},
      {"UnknownDType", mesh + "%a : f31[b:8] = input a\n",
       "line 2, column 6: dtype \"f31\" is not one of f32, bf16, f16, i32, "
       "i64, bool at \"f31[b:8] = input a\""},
      {"TypeUnclosed", mesh + "%a : f32[b:8 = input a\n",
       "line 2, column 16: expected a whole number at \"input a\""},
      {"DimensionWithoutSize", mesh + "%a : f32[b] = input a\n",
       "line 2, column 11: expected \":\" at \"] = input a\""},
      {"DimensionNegative", mesh + "%a : f32[b:-1] = input a\n",
       "line 2, column 12: the number is out of range at \"-1] = input a\""},
      {"DimensionHuge", mesh + "%a : f32[b:99999999999999999999] = input a\n",
       "line 2, column 12: expected a whole number at "
       "\"99999999999999999999\""},
      {"DimensionTwice", mesh + "%a : f32[b:8, b:8] = input a\n",
       "line 2, column 19: dimension \"b\" occurs twice in [b=8, b=8] at \" = "
       "input a\""},
      {"TooManyElements",
       mesh + "%a : f32[b:4611686018427387904, c:4] = input a\n",
       "line 2, column 37: shape [b=4611686018427387904, c=4] has more than "
       "2^62 elements at \" = input a\""},
      {"UnknownAxis", mesh + "%a : f32[b:8/z] = input a\n",
       "line 2, column 14: the mesh has no axis \"z\" at \"z] = input a\""},
      {"AxisTwiceInADimension", mesh + "%a : f32[b:8/x+x] = input a\n",
       "line 2, column 16: an axis occurs twice at \"x] = input a\""},
      {"AxisTwiceInAValue", mesh + "%a : f32[b:8/x, c:4/x] = input a\n",
       "line 2, column 1: the layout of the result is not legal"},
      {"AxisOfSizeOne", "mesh{x:1}\n%a : f32[b:8/x] = input a\n",
       "line 2, column 14: axis \"x\" has size 1 and cuts nothing at \"x] = "
       "input a\""},
      {"UnreducedNothing", mesh + "%a : f32[b:8] unreduced{} = input a\n",
       "line 2, column 25: expected a name at \"} = input a\""},
      {"NoEquals", mesh + "%a : f32[b:8] input a\n",
       "line 2, column 15: expected \"=\" at \"input a\""},
      {"NoInstruction", mesh + "%a : f32[b:8] =\n",
       "line 2, column 16: expected a name at the end of the line"},
      {"UnknownInstruction", mesh + "%a : f32[b:8] = inptu a\n",
       "line 2, column 17: no instruction \"inptu\" at \"inptu a\""},
      {"ValueTwice",
       mesh + "%a : f32[b:8] = input a\n%a : f32[b:8] = input b\n",
       "line 3, column 15: %a is made twice at \"= input b\""},
      {"ValueUndefined", mesh + "%y : f32[b:8] = map(%a) relu\n",
       "line 2, column 22: no value %a is made before at \"a) relu\""},
      {"ValueMadeLater",
       mesh + "%y : f32[b:8] = map(%a) relu\n%a : f32[b:8] = input a\n",
       "line 2, column 22: no value %a is made before at \"a) relu\""},
      {"ValueReadsItself", mesh + "%y : f32[b:8] = map(%y) relu\n",
       "line 2, column 1: an operand is read before it is made"},
      {"OperandsUnclosed", value + "%y : f32[b:8/x, c:4] = map(%a relu\n",
       "line 3, column 31: expected \")\" at \"relu\""},
      {"OperandWithoutPercent", value + "%y : f32[b:8/x, c:4] = map(a) relu\n",
       "line 3, column 28: expected \"%\" at \"a) relu\""},
      {"TooFewOperands", value + "%y : f32[c:4] = einsum(%a) sum{b}\n",
       "line 3, column 27: einsum does not take 1 operands at \" sum{b}\""},
      {"TooManyOperands", value + "%y : f32[b:8/x, c:4] = reshape(%a, %a)\n",
       "line 3, column 39: reshape does not take 2 operands at the end of the "
       "line"},
      {"OperandsOfASource", value + "%y : f32[b:8/x, c:4] = input(%a) y\n",
       "line 3, column 33: input does not take 1 operands at \" y\""},
      {"NoResult", value + "map(%a) relu\n",
       "line 3, column 1: a result is missing at \"map(%a) relu\""},
      {"TwoResults",
       value + "%y : f32[b:8/x, c:4], %z : f32[b:8/x, c:4] = map(%a) relu\n",
       "line 3, column 53: map gives one result at \" relu\""},
      {"OutputWithAResult", value + "%y : f32[b:8/x, c:4] = output(%a) y\n",
       "line 3, column 24: output gives nothing at \"output(%a) y\""},
      {"OutputWithoutAName", value + "output(%a)\n",
       "line 3, column 11: expected a name at the end of the line"},
      {"InputWithoutAName", mesh + "%a : f32[b:8] = input\n",
       "line 2, column 22: expected a name at the end of the line"},
      {"TextBehind", mesh + "%a : f32[b:8] = input a b\n",
       "line 2, column 25: unexpected text at \"b\""},
      {"ConstantTooShort", mesh + "%a : f32[b:3] = constant {1, 2}\n",
       "line 2, column 32: a constant has one number per element at the end of "
       "the line"},
      {"ConstantNoNumber", mesh + "%a : f32[b:2] = constant {1, two}\n",
       "line 2, column 30: expected a number at \"two}\""},
      {"ConstantUnclosed", mesh + "%a : f32[b:2] = constant {1, 2\n",
       "line 2, column 31: expected \"}\" at the end of the line"},
      {"RandomOfUnknownKind", mesh + "%a : f32[b:2] = random gamma stream 1\n",
       "line 2, column 24: expected \"normal\" at \"gamma stream 1\""},
      {"RandomStreamNegative",
       mesh + "%a : f32[b:2] = random normal stream -1\n",
       "line 2, column 38: the number is out of range at \"-1\""},
      {"RandomStreamHuge",
       mesh + "%a : f32[b:2] = random normal stream 4294967296\n",
       "line 2, column 38: the number is out of range at \"4294967296\""},
      {"MapUnknownFunction", value + "%y : f32[b:8/x, c:4] = map(%a) rellu\n",
       "line 3, column 32: unknown scalar function \"rellu\"; did you mean "
       "\"relu\"? at \"rellu\""},
      {"MapWrongArity", value + "%y : f32[b:8/x, c:4] = map(%a) add\n",
       "line 3, column 32: the function takes another number of operands at "
       "\"add\""},
      {"MapStepWrongArity",
       value + "%y : f32[b:8/x, c:4] = map(%a) [add($0)]\n",
       "line 3, column 39: the function takes another number of arguments at "
       "\")]\""},
      {"MapStepOfTheFuture",
       value + "%y : f32[b:8/x, c:4] = map(%a) [add($0, $1)]\n",
       "line 3, column 42: no such operand or earlier step at \"1)]\""},
      {"MapStepWithoutADType",
       value + "%y : f32[b:8/x, c:4] = map(%a) [cast($0)]\n",
       "line 3, column 37: expected \".\" at \"($0)]\""},
      {"MapUnclosed", value + "%y : f32[b:8/x, c:4] = map(%a) [neg($0)\n",
       "line 3, column 40: expected \"]\" at the end of the line"},
      {"MapOfNothing", value + "%y : f32[b:8/x, c:4] = map(%a)\n",
       "line 3, column 31: expected a name at the end of the line"},
      {"MapHugeArgument",
       value + "%y : f32[b:8/x, c:4] = map(%a) [neg($99999999999999999999)]\n",
       "line 3, column 38: expected a whole number at "
       "\"99999999999999999999\""},
      {"EinsumWithoutSum", value + "%y : f32[b:8/x, c:4] = einsum(%a, %a)\n",
       "line 3, column 38: expected \"sum{\" at the end of the line"},
      {"EinsumSumUnclosed", value + "%y : f32[b:8/x] = einsum(%a, %a) sum{c\n",
       "line 3, column 39: expected a name at the end of the line"},
      {"EinsumPlanUnclosed",
       value + "%y : f32[b:8/x] = einsum(%a, %a) sum{c} by{m 4\n",
       "line 3, column 47: expected a name at the end of the line"},
      {"ReduceWithoutAKind", value + "%y : f32[b:8/x] = reduce(%a)\n",
       "line 3, column 29: expected sum, max or min at the end of the line"},
      {"ReduceOfSeveralWithoutAnExpression",
       value + "%y : f32[b:8/x] = reduce(%a, %a) sum\n",
       "line 3, column 37: a reduce of several operands needs an expression at "
       "the end of the line"},
      {"ReduceWithoutOver", value + "%y : f32[b:8/x] = reduce(%a) sum square\n",
       "line 3, column 40: expected \"over\" at the end of the line"},
      {"SliceWithoutBegin", value + "%y : f32[b:8/x, c:2] = slice(%a) c\n",
       "line 3, column 35: expected \"begin\" at the end of the line"},
      {"SliceOfNoDimension",
       value + "%y : f32[b:8/x, c:2] = slice(%a) d begin 0\n",
       "line 3, column 1: dimension \"d\" is not in operand and result"},
      {"PadWithoutFill", value + "%y : f32[b:8/x, c:6] = pad(%a) c before 1\n",
       "line 3, column 42: expected \"fill\" at the end of the line"},
      {"GatherOfNoDimension",
       value +
           "%i : i32[k:3] = input i\n%y : f32[k:3, c:4] = gather(%a, %i) d\n",
       "line 4, column 37: no such dimension at \"d\""},
      {"MaskOfNoDimension",
       value + "%y : f32[b:8/x, c:4] = mask(%a) d fill 0\n",
       "line 3, column 33: no dimension \"d\" at \"d fill 0\""},
      {"AllReduceWithoutAKind",
       value + "%y : f32[b:8/x, c:4] = all_reduce(%a) over{x}\n",
       "line 3, column 39: expected sum, max or min at \"over{x}\""},
      {"AllGatherOfNoDimension",
       value + "%y : f32[b:8, c:4] = all_gather(%a) d over{x}\n",
       "line 3, column 37: no dimension \"d\" at \"d over{x}\""},
      {"AllGatherOverNoAxis",
       value + "%y : f32[b:8, c:4] = all_gather(%a) b over{}\n",
       "line 3, column 44: expected a name at \"}\""},
      {"AllGatherOverUnknownAxis",
       value + "%y : f32[b:8, c:4] = all_gather(%a) b over{z}\n",
       "line 3, column 44: the mesh has no axis \"z\" at \"z}\""},
      {"AllGatherOverAnAxisTwice",
       value + "%y : f32[b:8, c:4] = all_gather(%a) b over{x, x}\n",
       "line 3, column 47: an axis occurs twice at \"x}\""},
      {"AllToAllWithoutTo",
       value + "%y : f32[b:8, c:4/x] = all_to_all(%a) b c over{x}\n",
       "line 3, column 41: expected \"to\" at \"c over{x}\""},
      {"PlaceBeforeTheArena",
       mesh + "buffers{arena:64, commit:1}\n%a : f32[b:8] @-64 = input a\n",
       "line 3, column 19: a place before the arena at \" = input a\""},
      {"ErrorInAContinuedLine",
       mesh + "%a : f32[b:8/x,\n    c:four] = input a\n",
       "line 3, column 7: expected a whole number at \"four] = input a\""},
      {"TabsAreNoSpaces", mesh + "\t%a : f32[b:8] = input a\n",
       "line 2, column 1: expected a name at \"\\t%a : f32[b:8] = inp\""},
      {"EinsumOverOtherDimensions",
       value + "%y : f32[b:8/x] = einsum(%a, %a) sum{b}\n",
       "line 3, column 38: the result leaves out other dimensions at \"b}\""},
  };
}

class ProgramTextErrors : public ::testing::TestWithParam<ParseError> {};

TEST_P(ProgramTextErrors, SayWhere) {
  const absl::StatusOr<Program> program = ParseProgram(GetParam().text);
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(program.status().message());
  EXPECT_EQ(message.substr(0, message.find('\n')), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(All, ProgramTextErrors,
                         ::testing::ValuesIn(ParseErrors()),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST(ProgramText, BytesThatAreNoTextAreEscaped) {
  const std::string text("mesh{}\n%a\0\xff : f32[] = input a\n", 31);
  EXPECT_THAT(ParseProgram(text),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "line 2, column 3: expected \":\" at "
                       "\"\\x00\\xff : f32[] = input a\""));
}

TEST(ProgramText, NoPrefixOfAProgramCrashes) {
  const std::string text = kEveryInstruction;
  int valid = 0;
  for (size_t size = 0; size <= text.size(); ++size) {
    const absl::StatusOr<Program> program = ParseProgram(text.substr(0, size));
    if (program.ok()) {
      ++valid;
    } else {
      EXPECT_THAT(program, StatusIs(absl::StatusCode::kInvalidArgument,
                                    StartsWith("line ")));
    }
  }
  EXPECT_GT(valid, 30);
}

// Whatever is done to a text, it is a program or an error, never a crash, and
// whatever reads as a program reads back as itself.
TEST(ProgramText, NoMutationOfAProgramCrashes) {
  const std::string planned =
      AfterPasses({"delay_all_reduces", "narrow_reshards", "expand_reshards",
                   "fuse_reduce_scatters", "remove_trivial_collectives",
                   "bucket_all_reduces", "shard_shapes", "fuse_maps",
                   "plan_einsums", "plan_buffers"},
                  kEveryInstruction);
  ASSERT_THAT(planned, HasSubstr("buffers{"));
  std::vector<std::string> pieces;  // to put in: words of programs and others
  for (const std::string& text : {std::string(kEveryInstruction), planned}) {
    for (size_t begin = 0; begin + 12 < text.size(); begin += 7) {
      pieces.push_back(text.substr(begin, 1 + begin % 11));
    }
  }
  for (const char* piece : {"",
                            "%",
                            "/",
                            "/data",
                            "/data+model",
                            "=",
                            "=7",
                            "@",
                            "@-8",
                            "@w",
                            "9223372036854775807",
                            "-9223372036854775808",
                            "4611686018427387904",
                            "99999999999999999999999",
                            "-1",
                            "0",
                            "1e999",
                            "nan",
                            "{",
                            "}",
                            "[",
                            "]",
                            "(",
                            ")",
                            "\n",
                            "\n    ",
                            "\t",
                            "\r\n",
                            "\xff",
                            "over{data}",
                            "unreduced{data}",
                            "unreduced{model} max",
                            "mesh{data:1}",
                            "mesh{data:2, model:2}\n",
                            "grains{d:data+model}\n",
                            "buffers{arena:64, commit:0}\n",
                            "by{m 1}",
                            "$99",
                            "literal.f32(1)"}) {
    pieces.push_back(piece);
  }
  std::mt19937_64 random(20240229);
  int valid = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = random() % 2 == 0 ? kEveryInstruction : planned;
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int k = 0; k < changes; ++k) {
      const size_t at = random() % text.size();
      const size_t length = std::min<size_t>(random() % 12, text.size() - at);
      switch (random() % 4) {
        case 0:  // one byte
          text[at] = static_cast<char>(random());
          break;
        case 1:  // a piece of another place
          text.replace(at, length, pieces[random() % pieces.size()]);
          break;
        case 2:  // nothing
          text.erase(at, length);
          break;
        default: {  // two lines trade places, or one is doubled
          const size_t line = text.find('\n', at);
          if (line == std::string::npos) break;
          const size_t end = text.find('\n', line + 1);
          if (end == std::string::npos) break;
          const std::string moved = text.substr(line, end - line);
          if (random() % 2 == 0) text.erase(line, end - line);
          const size_t to = text.find('\n', random() % text.size());
          if (to != std::string::npos) text.insert(to, moved);
          break;
        }
      }
    }
    const absl::StatusOr<Program> program = ParseProgram(text);
    if (!program.ok()) {
      ASSERT_EQ(program.status().code(), absl::StatusCode::kInvalidArgument)
          << text;
      continue;
    }
    ++valid;
    const std::string printed = PrintProgram(*program);
    const absl::StatusOr<Program> again = ParseProgram(printed);
    ASSERT_OK(again) << text << "\n" << printed;
    ASSERT_EQ(PrintProgram(*again), printed) << text;
  }
  EXPECT_GT(valid, 300);
}

}  // namespace
}  // namespace mtf::testing
