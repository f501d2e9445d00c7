// SPDX-License-Identifier: Apache-2.0
//
// Errors of the arena size, the commit and missing buffers in a text. Buffers
// that overlap are in verify_buffers_test.cc.
#include <ostream>
#include <string>
#include <vector>

#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

struct WrongBuffers {
  const char* name;
  std::string text;
  std::string message;  // its first line
  friend std::ostream& operator<<(std::ostream& out,
                                  const WrongBuffers& wrong) {
    return out << wrong.name;
  }
};

std::vector<WrongBuffers> WrongTexts() {
  return {
      {"AValueFitsTheArena",
       "mesh{x:2}\nbuffers{arena:64, commit:1}\n%a : f32[b:80/x=40] @0 = input "
       "a\n",
       "line 3, column 1: %a is at @0, and takes 40 elements of 4 bytes there, "
       "which do not fit into an arena of 64 bytes"},
      {"AnOffsetIsWithinTheArena",
       "mesh{x:2}\nbuffers{arena:64, commit:1}\n%a : f32[b:8/x=4] @128 = input "
       "a\n",
       "line 3, column 1: %a is at @128, and takes 4 elements of 4 bytes "
       "there, which do not fit into an arena of 64 bytes"},
      {"NoSizeIsTooLargeToCheck",
       "mesh{x:2}\nbuffers{arena:1152921504606846976, commit:1}\n%a : "
       "f32[b:4611686018427387904/x=2305843009213693952] @0 = input a\n",
       "line 3, column 1: [b=4611686018427387904] takes more than "
       "17592186044416 elements on every device"},
      {"AValueFitsItsVariable",
       "mesh{x:2}\nbuffers{arena:64, commit:1}\n%w : f32[b:8/x=4] @w = "
       "read_variable w\n%n : f32[b:9/x=5] @w = input n\n",
       "line 4, column 1: %n is at @w, but its type or layout differs from the "
       "variable's"},
      {"AValueIsInAVariableThatExists",
       "mesh{x:2}\nbuffers{arena:64, commit:1}\n%n : f32[b:8/x=4] @w = input "
       "n\n",
       "line 3, column 1: %n is at @w, but there is no such variable"},
      {"TheCommitIsAnInstruction",
       "mesh{x:2}\nbuffers{arena:64, commit:2}\n%n : f32[b:8/x=4] @0 = input "
       "n\n",
       "line 2, column 26: the commit is 2, but no variable changes in place: "
       "it is 1, the number of instructions"},
      {"TheCommitIsTheFirstChangeOfAVariable",
       "mesh{x:2}\nbuffers{arena:0, commit:2}\n%w : f32[c:8] @w = "
       "read_variable w\n%v : f32[c:8] @w = map(%w) relu\n%n : f32[c:8] = "
       "write_variable(%v) w\n",
       "line 2, column 25: the commit is 2, but the first instruction that "
       "changes a variable in place is number 1 counted from 0, which makes %v "
       "at @w"},
      {"TheCommitIsNotBefore",
       "mesh{x:2}\nbuffers{arena:64, commit:0}\n%n : f32[b:8/x=4] @0 = input "
       "n\n",
       "line 2, column 26: the commit is 0, but no variable changes in place: "
       "it is 1, the number of instructions"},
      {"NoInstructionAfterTheCommitCanFail",
       "mesh{}\nbuffers{arena:192, commit:3}\n%i : i32[k:3] @0 = input i\n"
       "%t : f32[v:5, d:2] @64 = input t\n%w : f32[c:8] @w = read_variable w\n"
       "%v : f32[c:8] @w = map(%w) relu\n%g : f32[k:3, d:2] @128 = gather(%t, "
       "%i) v\n%n : f32[c:8] = write_variable(%v) w\n",
       "line 7, column 1: gather can fail, but comes after the commit, "
       "instruction number 3, from which on variables change in place"},
      {"TheArenaEndsWithItsValues",
       "mesh{x:2}\nbuffers{arena:128, commit:1}\n%n : f32[b:8/x=4] @0 = input "
       "n\n",
       "line 2, column 15: the arena has 128 bytes, but its last buffer ends "
       "at "
       "64, in units of 64 bytes"},
      {"TheLastBufferIsAWholeUnit",
       "mesh{x:2}\nbuffers{arena:16, commit:1}\n%n : f32[b:8/x=4] @0 = input "
       "n\n",
       "line 2, column 15: the arena has 16 bytes, but its last buffer ends at "
       "64, in units of 64 bytes"},
      {"AnArenaWithoutBuffersIsEmpty", "mesh{}\nbuffers{arena:64, commit:0}\n",
       "line 2, column 15: the arena has 64 bytes, but its last buffer ends at "
       "0, in units of 64 bytes"},
      {"EveryValueHasABuffer",
       "mesh{x:2}\nbuffers{arena:64, commit:1}\n%n : f32[b:8/x=4] = input n\n",
       "line 3, column 1: %n has no buffer, but every value of a program with "
       "planned buffers has one: \"@\" and an offset, or the name of its "
       "variable"},
      {"AViewHasNoBufferOfItsOwn",
       "mesh{}\nbuffers{arena:64, commit:2}\n%n : f32[b:8] @0 = input n\n"
       "%r : f32[k:8] @0 = reshape(%n)\n",
       "line 4, column 1: %r has a buffer, but shares that of its operand"},
  };
}

class VerifyBufferText : public ::testing::TestWithParam<WrongBuffers> {};

TEST_P(VerifyBufferText, Refuses) {
  const absl::StatusOr<Program> program = ParseText(GetParam().text);
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(program.status().message());
  EXPECT_EQ(message.substr(0, message.find('\n')), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(All, VerifyBufferText,
                         ::testing::ValuesIn(WrongTexts()),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace mtf::testing
