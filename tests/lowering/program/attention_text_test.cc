// SPDX-License-Identifier: Apache-2.0
//
// The text form of attention, both ways, and wrong texts.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "lowering/parse_program.h"
#include "lowering/program/print_program.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

constexpr char kText[] =
    "mesh{data:2, model:2}\n"
    "%q : f32[batch:4/data, length:6, heads:2/model, d:8] = input q\n"
    "%k : f32[batch:4/data, memory:5, heads:2/model, d:8] = input k\n"
    "%v : f32[memory:5, d:8] = input v\n"
    "%b : f32[heads:2/model, memory:5] = input b\n"
    "%y : f32[batch:4/data, length:6, heads:2/model, d:8], %l : "
    "f32[batch:4/data, heads:2/model, length:6] = attention(%q, %k, %v, %b) "
    "length to memory over d values d scale 0.25 causal window 3 bias\n"
    "%dq : f32[batch:4/data, length:6, heads:2/model, d:8], %dk : "
    "f32[batch:4/data, memory:5, heads:2/model, d:8], %dv : f32[memory:5, d:8] "
    "unreduced{data, model}, %db : f32[heads:2/model, memory:5] "
    "unreduced{data} = attention_gradient(%q, %k, %v, %b, %y, %l, %y) length "
    "to "
    "memory over d values d scale 0.25 causal window 3 bias bias_gradient\n"
    "output(%y) y\n"
    "end{instructions:7}\n";

absl::Status ParseWith(const std::string& from, const std::string& to) {
  EXPECT_NE(std::string(kText).find(from), std::string::npos) << from;
  return ParseProgram(absl::StrReplaceAll(kText, {{from, to}})).status();
}

TEST(AttentionText, PrintsWhatWasParsed) {
  const auto program = ParseProgram(kText);
  ASSERT_OK(program);
  const std::string text = PrintProgram(*program);
  const auto again = ParseProgram(text);
  ASSERT_OK(again);
  EXPECT_EQ(PrintProgram(*again), text);
  EXPECT_THAT(absl::StrReplaceAll(text, {{"\n    ", " "}}),
              HasSubstr("attention(%q, %k, %v, %b) length to memory over d "
                        "values d scale 0.25 causal window 3 bias\n"));
}

TEST(AttentionText, WrongTextsAreErrors) {
  const struct {
    const char *from, *to, *message;
  } kCases[] = {
      {"%l : f32", "%l : bf16", "logsumexp has another shape or dtype"},
      {"%b : f32[heads:2/model, memory:5]",
       "%b : bool[heads:2/model, memory:5]", "the bias must be a float"},
      {"attention(%q, %k, %v, %b)", "attention(%q, %k, %v)",
       "3 operands, not 4"},
      {"memory:5, d:8] = input v", "memory:5/data, d:8] = input v",
       "\"memory\""},
      {"unreduced{data, model}", "unreduced{data}",
       "unreduced over other axes"},
      {"over d values", "over e values", "has no dimension \"e\""},
      {"window 3", "window 0", "the number is below 1"},
      {"scale 0.25", "scale inf", "out of range"},
  };
  for (const auto& wrong : kCases) {
    SCOPED_TRACE(wrong.to);
    EXPECT_THAT(
        ParseWith(wrong.from, wrong.to),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(wrong.message)));
  }
}

}  // namespace
}  // namespace mtf
