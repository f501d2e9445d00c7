// SPDX-License-Identifier: Apache-2.0
//
// A text that is not a program is an error with its line and column.
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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
      {"NoMesh", "",
       "line 1, column 1: the first line must be mesh{...} at "
       "\"end{instructions:0}\""},
      {"MeshNotFirst", "%a : f32[b:8/x, c:4] = input a\n" + mesh,
       "line 1, column 1: the first line must be mesh{...} at \"%a : "
       "f32[b:8/x, c:4]\""},
      {"MeshTwice", mesh + mesh,
       "line 2, column 5: the mesh is given twice at \"{x:2, y:2}\""},
      {"MeshUnclosed", "mesh{x:2",
       "line 1, column 9: expected a name at the end of the line"},
      {"MeshWithoutSize", "mesh{x}",
       "line 1, column 7: expected \":\" at \"}\""},
      {"MeshOfSizeZero", "mesh{x:0}",
       "line 1, column 8: mesh item \"x:0\" has a size below 1 at \"0}\""},
      {"MeshAxisTwice", "mesh{x:2, x:2}",
       "line 1, column 13: mesh item \"x:2\" names the axis of item 1 again at "
       "\"2}\""},
      {"MeshTooLarge", "mesh{x:99999, y:99999}",
       "line 1, column 17: mesh item \"y:99999\" makes more than 2147483647 "
       "devices at \"99999}\""},
      {"MeshSizeBeyondEveryNumber", "mesh{x:99999999999999999999}",
       "line 1, column 8: expected an integer at \"99999999999999999999\""},
      {"MeshOfNineAxes", "mesh{a:1,b:1,c:1,d:1,e:1,f:1,g:1,h:1,i:1}",
       "line 1, column 40: mesh item \"i:1\" is one axis too many: a mesh has "
       "at most 8 at \"1}\""},
      {"GrainsOfUnknownAxis", mesh + "grains{b:z}\n",
       "line 2, column 10: the mesh has no axis \"z\" at \"z}\""},
      {"BuffersNegative", mesh + "buffers{arena:-1, commit:0}\n",
       "line 2, column 15: the number is not from 0 to 1152921504606846976 at "
       "\"-1, commit:0}\""},
      {"BuffersHuge", mesh + "buffers{arena:0, commit:99999999999}\n",
       "line 2, column 25: the number is not from 0 to 2147483647 at "
       "\"99999999999}\""},
      {"NoColon", mesh + "%a f32[b:8] = input a\n",
       "line 2, column 4: expected \":\" at \"f32[b:8] = input a\""},
      {"NoType", mesh + "%a : = input a\n",
       "line 2, column 6: expected a name at \"= input a\""},
      {"UnknownDType", mesh + "%a : f31[b:8] = input a\n",
       "line 2, column 6: dtype \"f31\" is not one of f32, bf16, f16, i32, "
       "i64, bool at \"f31[b:8] = input a\""},
      {"TypeUnclosed", mesh + "%a : f32[b:8 = input a\n",
       "line 2, column 16: expected an integer at \"input a\""},
      {"DimensionWithoutSize", mesh + "%a : f32[b] = input a\n",
       "line 2, column 11: expected \":\" at \"] = input a\""},
      {"DimensionNegative", mesh + "%a : f32[b:-1] = input a\n",
       "line 2, column 12: the number is below 0 at \"-1] = input a\""},
      {"DimensionHuge", mesh + "%a : f32[b:99999999999999999999] = input a\n",
       "line 2, column 12: expected an integer at "
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
       "line 2, column 14: axis \"x\" has size 1 and shards nothing at \"x] = "
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
       "line 3, column 15: %a is defined twice at \"= input b\""},
      {"ValueUndefined", mesh + "%y : f32[b:8] = map(%a) relu\n",
       "line 2, column 22: no value %a is defined above at \"a) relu\""},
      {"ValueDefinedLater",
       mesh + "%y : f32[b:8] = map(%a) relu\n%a : f32[b:8] = input a\n",
       "line 2, column 22: no value %a is defined above at \"a) relu\""},
      {"ValueReadsItself", mesh + "%y : f32[b:8] = map(%y) relu\n",
       "line 2, column 1: an operand is read before it is defined"},
      {"OperandsUnclosed", value + "%y : f32[b:8/x, c:4] = map(%a relu\n",
       "line 3, column 31: expected \")\" at \"relu\""},
      {"OperandWithoutPercent", value + "%y : f32[b:8/x, c:4] = map(a) relu\n",
       "line 3, column 28: expected \"%\" at \"a) relu\""},
      {"TooFewOperands", value + "%y : f32[c:4] = einsum(%a) sum{b}\n",
       "line 3, column 27: einsum takes 2 operands, not 1 at \" sum{b}\""},
      {"TooManyOperands", value + "%y : f32[b:8/x, c:4] = reshape(%a, %a)\n",
       "line 3, column 39: reshape takes 1 operand, not 2 at the end of the "
       "line"},
      {"OperandsOfASource", value + "%y : f32[b:8/x, c:4] = input(%a) y\n",
       "line 3, column 33: input takes no operands, not 1 at \" y\""},
      {"NoResult", value + "map(%a) relu\n",
       "line 3, column 1: a result is missing at \"map(%a) relu\""},
      {"TwoResults",
       value + "%y : f32[b:8/x, c:4], %z : f32[b:8/x, c:4] = map(%a) relu\n",
       "line 3, column 53: map has 1 result, not 2 at \" relu\""},
      {"OutputWithAResult", value + "%y : f32[b:8/x, c:4] = output(%a) y\n",
       "line 3, column 24: output has no result at \"output(%a) y\""},
      {"OutputWithoutAName", value + "output(%a)\n",
       "line 3, column 11: expected a name at the end of the line"},
      {"InputWithoutAName", mesh + "%a : f32[b:8] = input\n",
       "line 2, column 22: expected a name at the end of the line"},
      {"TextAfterTheName", mesh + "%a : f32[b:8] = input a b\n",
       "line 2, column 25: unexpected text at \"b\""},
      {"ConstantTooShort", mesh + "%a : f32[b:3] = constant {1, 2}\n",
       "line 2, column 32: constant has one number per element: %a has 3, not "
       "2 at the end of the line"},
      {"ConstantNoNumber", mesh + "%a : f32[b:2] = constant {1, two}\n",
       "line 2, column 30: constant takes a number here at \"two}\""},
      {"ConstantUnclosed", mesh + "%a : f32[b:2] = constant {1, 2\n",
       "line 2, column 31: expected \"}\" at the end of the line"},
      {"RandomOfUnknownKind", mesh + "%a : f32[b:2] = random gamma stream 1\n",
       "line 2, column 24: expected \"normal\" at \"gamma stream 1\""},
      {"RandomStreamNegative",
       mesh + "%a : f32[b:2] = random normal stream -1\n",
       "line 2, column 38: the number is not from 0 to 4294967295 at \"-1\""},
      {"RandomStreamHuge",
       mesh + "%a : f32[b:2] = random normal stream 4294967296\n",
       "line 2, column 38: the number is not from 0 to 4294967295 at "
       "\"4294967296\""},
      {"MapUnknownFunction", value + "%y : f32[b:8/x, c:4] = map(%a) rellu\n",
       "line 3, column 32: unknown scalar function \"rellu\"; did you mean "
       "\"relu\"? at \"rellu\""},
      {"MapWrongArity", value + "%y : f32[b:8/x, c:4] = map(%a) add\n",
       "line 3, column 32: add takes 2 operands, and map has 1 at \"add\""},
      {"MapStepWrongArity",
       value + "%y : f32[b:8/x, c:4] = map(%a) [add($0)]\n",
       "line 3, column 39: add takes 2 arguments, not 1 at \")]\""},
      {"MapStepReadsALaterStep",
       value + "%y : f32[b:8/x, c:4] = map(%a) [add($0, $1)]\n",
       "line 3, column 42: there is no $1 yet: 1 operand and 0 earlier steps "
       "at "
       "\"1)]\""},
      {"MapStepWithoutADType",
       value + "%y : f32[b:8/x, c:4] = map(%a) [cast($0)]\n",
       "line 3, column 37: expected \".\" at \"($0)]\""},
      {"MapUnclosed", value + "%y : f32[b:8/x, c:4] = map(%a) [neg($0)\n",
       "line 3, column 40: expected \"]\" at the end of the line"},
      {"MapOfNothing", value + "%y : f32[b:8/x, c:4] = map(%a)\n",
       "line 3, column 31: expected a name at the end of the line"},
      {"MapHugeArgument",
       value + "%y : f32[b:8/x, c:4] = map(%a) [neg($99999999999999999999)]\n",
       "line 3, column 38: expected an integer at "
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
       "line 3, column 37: reduce of 2 operands needs an expression, as in "
       "\"sum mul over [b:8]\" at the end of the line"},
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
       "line 4, column 37: %a has no dimension \"d\", but [b=8, c=4] at \"d\""},
      {"MaskOfNoDimension",
       value + "%y : f32[b:8/x, c:4] = mask(%a) d fill 0\n",
       "line 3, column 33: %a has no dimension \"d\", but [b=8, c=4] at \"d "
       "fill "
       "0\""},
      {"AllReduceWithoutAKind",
       value + "%y : f32[b:8/x, c:4] = all_reduce(%a) over{x}\n",
       "line 3, column 39: expected sum, max or min at \"over{x}\""},
      {"AllGatherOfNoDimension",
       value + "%y : f32[b:8, c:4] = all_gather(%a) d over{x}\n",
       "line 3, column 37: %a has no dimension \"d\", but [b=8, c=4] at \"d "
       "over{x}\""},
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
      {"NegativeOffset",
       mesh + "buffers{arena:64, commit:1}\n%a : f32[b:8] @-64 = input a\n",
       "line 3, column 16: a negative offset at \"-64 = input a\""},
      {"ErrorInAContinuedLine",
       mesh + "%a : f32[b:8/x,\n    c:four] = input a\n",
       "line 3, column 7: expected an integer at \"four] = input a\""},
      {"TabsAreNoSpaces", mesh + "\t%a : f32[b:8] = input a\n",
       "line 2, column 1: expected a name at \"\\t%a : f32[b:8] = inp\""},
      {"EinsumOverOtherDimensions",
       value + "%y : f32[b:8/x] = einsum(%a, %a) sum{b}\n",
       "line 3, column 38: the result leaves out other dimensions: sum{c} at "
       "\"b}\""},
  };
}

class ProgramTextErrors : public ::testing::TestWithParam<ParseError> {};

TEST_P(ProgramTextErrors, SayWhere) {
  const absl::StatusOr<Program> program = ParseText(GetParam().text);
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

TEST(ProgramText, WrongOriginsAreErrors) {
  const std::string program = "mesh{data:2}\n%x : f32[b:8/data] = input x";
  for (const auto& [end, error] :
       std::vector<std::pair<std::string, std::string>>{
           {" for{b/data rule 0}", "the text has no rules"},
           {" for{b/model}", "the mesh has no axis \"model\""},
           {" for{b}", "expected \"/\""},
           {" at x", "expected a name"},
           {" at x lm.cc", "expected \":\""},
           {" at x lm.cc:-1", "the number is not from 0 to 2147483647"}}) {
    EXPECT_THAT(ErrorText(ParseText(program + end).status()), HasSubstr(error));
  }
  EXPECT_THAT(
      ErrorText(
          ParseText("mesh{data:2}\nrule [params] a:data from \"x\"").status()),
      HasSubstr("no such section of a layout"));
}

// Causes must name axes, dimensions and rules of the program.
TEST(ProgramText, WrongCausesAreErrors) {
  const std::string program = R"(mesh{data:2, model:2}
rule b:data from "a"
rule h:model from "b"
%x : f32[b:8/data, h:6/model] = input x
%y : f32[b:8/data, h:6] = all_gather(%x) h over{model} )";
  EXPECT_OK(ParseText(program + "for{h/model rule 1}"));
  EXPECT_OK(ParseText(program + "for{h/model}"));
  // Of a step that another axis needs.
  EXPECT_OK(ParseText(program + "for{b/data rule 0}"));
  for (const auto& [end, error] :
       std::vector<std::pair<std::string, std::string>>{
           {"for{d/model}",
            "the cause is dimension \"d\" over axis \"model\", which never "
            "shards it"},
           {"for{b/model}",
            "the cause is dimension \"b\" over axis \"model\", which never "
            "shards it"},
           {"for{h/model rule 0}",
            "the cause is dimension \"h\" over axis \"model\" by rule 0, "
            "b:data, which is not over that axis"},
           {"for{h/model rule 2}", "the text has 2 rules, counted from 0"},
           {"for{h/model rule 1, b/data rule 0}",
            "one cause is over the axes of the collective, another is not"}}) {
    EXPECT_THAT(ErrorText(ParseText(program + end).status()),
                AllOf(HasSubstr("line 5, column "), HasSubstr(error)))
        << end;
  }
  const std::string two = "rule c:model from \"c\"\n";
  EXPECT_THAT(
      ErrorText(ParseText(absl::StrReplaceAll(
                              program + "for{h/model rule 2}",
                              {{"%x : f32[b:8/data, h:6/model]",
                                two + "%x : f32[b:8/data, h:6/model]"}}))
                    .status()),
      HasSubstr("by rule 2, c:model, which shards another dimension"));
  EXPECT_THAT(ErrorText(ParseText("mesh{x:2}\n%a : f32[b:8/x] = input a\n"
                                  "%y : f32[b:8/x] = map(%a) relu for{b/x}")
                            .status()),
              HasSubstr("only reshards and collectives have causes"));
}

// A name or an opcode may fill a file; its error does not fill the screen.
TEST(ProgramText, ErrorsOfLongTextsAreShort) {
  const std::string mesh = "mesh{data:2}\n";
  const std::string name(300000, 'a');
  for (const std::string& line :
       {"%x : f32[b:8] = " + name + " x",
        "%x : f32[b:8/" + name + "] = input x",
        "%x : " + name + "[b:8] = input x",
        "%y : f32[] = map(%" + name + ") relu",
        "%" + name + " : f32[b:8/data=8] = input x", name}) {
    const absl::Status status = ParseText(mesh + line).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_LE(status.message().size(), 1000u) << status.message().substr(0, 99);
  }
}

TEST(ProgramText, AnOpenQuoteIsAnError) {
  EXPECT_THAT(
      ErrorText(ParseText("mesh{data:2}\n%\"x : f32[] = input x").status()),
      HasSubstr("line 2, column 2: expected a name in quotes"));
}

TEST(ProgramText, AVariableIsOfOneSectionThatExists) {
  const std::string read = "mesh{data:2}\n%m : f32[d:4] = read_variable m ";
  EXPECT_THAT(ParseText(read + "[optimiser]\n"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("expected [optimizer]")));
  EXPECT_THAT(ParseText(read + "[optimizer]\n%n : f32[d:4] = "
                               "write_variable(%m) m\n"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("variable \"m\" has another section above")));
}

}  // namespace
}  // namespace mtf::testing
