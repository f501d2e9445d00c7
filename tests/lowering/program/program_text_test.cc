// SPDX-License-Identifier: Apache-2.0
//
// The text form, both ways: what is printed reads back as itself.
#include <cmath>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "lowering/program/count_costs.h"
#include "tests/lowering/pass_test.h"
#include "tests/lowering/program/every_instruction.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

void ExpectReadsBack(const std::string& text) {
  const absl::StatusOr<Program> program = ParseText(text);
  ASSERT_OK(program);
  EXPECT_EQ(absl::StrCat("\n", TextOf(*program)), text);
}

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
%a.shard : f32[h:16/data], %b.shard : f32[h:16, k:4/data] = reduce_scatter(%a, %b) sum h, k over{data}
output(%c.sum) c
output(%d.sum) d
output(%a.shard) a
output(%b.shard) b
)");
}

// A tensor may have any name; names with other characters are quoted.
TEST(ProgramText, AnyNameReadsBack) {
  ExpectReadsBack(R"(
mesh{data:2}
%"my\040layer/w\040=\0401" : f32[b:8/data] = read_variable "my\040layer/w\040=\0401"
%"\"quoted\\\"" : f32[b:8/data] = map(%"my\040layer/w\040=\0401") gelu
%"\303\251" : f32[b:8/data] = map(%"\"quoted\\\"") gelu
output(%"\303\251") "(a,\040b)\040:\040c"
)");
}

// The text of a program that is explained without its graph.
TEST(ProgramText, RulesCausesAndOriginsReadBack) {
  const std::string text = R"(
mesh{data:2, model:2}
rule d_ff:model from "preset megatron:8"
rule [parameters] d_model:data+model from "--layout, rule 2 of 3"
rule [parameters keep_gathered] vocab:data from "--layout, rule 3 of 3"
%x : f32[b:8/data, d_ff:16/model] = input x at x lm.cc:3
%m : f32[b:8/data] unreduced{model} = reduce(%x) sum at layer_0/sum lm.cc:4
%s : f32[b:8/data] = all_reduce(%m) sum over{model} for{d_ff/model rule 0} at layer_0/sum lm.cc:4
%t : f32[b:8] = all_gather(%s) b over{data} for{b/data} at "my\040sum" "a\040b":7
output(%t) at
)";
  const absl::StatusOr<Program> program = ParseText(text);
  ASSERT_OK(program);
  EXPECT_EQ(absl::StrCat("\n", TextOf(*program, ProgramDetail::kWithOrigins)),
            text);
  ASSERT_EQ(program->rules.size(), 3u);
  EXPECT_EQ(program->rules[1].origin, "--layout, rule 2 of 3");
  EXPECT_FALSE(program->rules[1].keep_gathered);
  EXPECT_TRUE(program->rules[2].keep_gathered);
  EXPECT_EQ(program->origins.size(), 3u);
  const std::vector<CollectiveCost> costs = ListCollectives(*program);
  ASSERT_EQ(costs.size(), 2u);
  EXPECT_EQ(costs[0].rule, "d_ff:model");
  EXPECT_EQ(costs[0].rule_origin, "preset megatron:8");
  EXPECT_EQ(costs[0].site.ToString(), "lm.cc:4");
  EXPECT_EQ(costs[1].dimension, "b");
  EXPECT_EQ(costs[1].rule, "");
}

// Variables that are state of an optimizer are marked after their names.
TEST(ProgramText, StateOfAnOptimizerReadsBack) {
  const std::string text = R"(
mesh{data:2}
%w : f32[d:4] = read_variable w
%m : f32[d:4/data] = read_variable "adam\040m" [optimizer]
%m.next : f32[d:4/data] = map(%m) square
%m.new : f32[d:4/data] = write_variable(%m.next) "adam\040m" [optimizer]
output(%w) w
)";
  ExpectReadsBack(text);
  const absl::StatusOr<Program> program = ParseText(text);
  ASSERT_OK(program);
  EXPECT_EQ(program->FindVariable("w")->section, RuleSection::kParameters);
  EXPECT_EQ(program->FindVariable("adam m")->section, RuleSection::kOptimizer);
}

TEST(ProgramText, LinesMayEndAsOnWindows) {
  const std::string text = kEveryInstruction;
  EXPECT_EQ(
      PrintProgram(*ParseText(absl::StrReplaceAll(text, {{"\n", "\r\n"}}))),
      PrintProgram(*ParseText(text)));
}

TEST(ProgramText, ExtentsPlansAndBuffersReadBack) {
  ExpectReadsBack(R"(
mesh{data:2, model:2}
grains{h:data}
buffers{arena:2112, commit:9}
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
    Instruction constant(Opcode::kConstant, ConstantAttributes{{number}});
    constant.results = {value};
    program.instructions.push_back(constant);
    const absl::StatusOr<Program> parsed = ParseProgram(PrintProgram(program));
    ASSERT_OK(parsed) << PrintProgram(program);
    const double read =
        parsed->instructions[0].Get<ConstantAttributes>().elements[0];
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
  absl::StatusOr<Program> program = ParseText("mesh{data:2, model:2}\n");
  ASSERT_OK(program);
  // Nine values joined make a line that must be broken.
  Instruction joined(Opcode::kConcat, ConcatAttributes{"batch"});
  for (int i = 0; i < 9; ++i) {
    const int value = program->AddValue(
        absl::StrCat("layer_", i, "/attention/dot_product/value_", i), kFloat32,
        {{"batch", 8}}, TensorLayout::Replicated(1));
    Instruction input(Opcode::kInput, NameAttributes{absl::StrCat("x", i)});
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

TEST(ProgramText, GrainsThatNoValueShowsArePrinted) {
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

}  // namespace
}  // namespace mtf::testing
