// SPDX-License-Identifier: Apache-2.0
//
// Every rule about rows that ranks send to each other, broken once.
#include "lowering/verify/verify_rows.h"

#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

// Windows of 3 rows around each of 8, on 4 ranks.
constexpr char kHalos[] =
    "mesh{x:4}\n"
    "%a : f32[b:8/x, c:5] = input a\n"
    "%t : f32[halo-x:4/x, c:5] = take_rows(%a) b from{8 at 1} to 8 span 3 "
    "round 0 over{x}\n"
    "%s : f32[halo-x:4/x, c:5] = collective_permute(%t) shift 1 over{x}\n"
    "%u : f32[halo-x:4/x, c:5] = take_rows(%a) b from{8 at 1} to 8 span 3 "
    "round 1 over{x}\n"
    "%v : f32[halo-x:4/x, c:5] = collective_permute(%u) shift 3 over{x}\n"
    "%p : f32[halo-x:16/x, c:5] = place_rows(%a, %s, %v) b from{8 at 1} to 8 "
    "span 3 over{x}\n"
    "%w : f32[b:8/x, c:5, k:3] = windows(%p) b, k of halo-x\n"
    "output(%w) w\n";

struct BrokenRows {
  const char* name;
  std::string from, to;  // replaced in the text
  std::string message;   // its first line
  friend std::ostream& operator<<(std::ostream& out, const BrokenRows& rows) {
    return out << rows.name;
  }
};

std::vector<BrokenRows> AllBrokenRows() {
  return {
      {"TheShiftIsThatOfTheRound", "(%t) shift 1", "(%t) shift 2",
       "line 7, column 1: operand %s does not have the rows of round 0"},
      {"ARoundIsReadOnce", "(%a, %s, %v)", "(%a, %s, %s)",
       "line 7, column 1: operand %s does not have the rows of round 1"},
      {"RoundsKeepTheirOrder", "(%a, %s, %v)", "(%a, %v, %s)",
       "line 7, column 1: operand %v does not have the rows of round 0"},
      {"ATransferIsOfOneKind", "span 3 round 1", "span 3 wrap round 1",
       "line 7, column 1: operand %v does not have the rows of round 1"},
      {"RowsThatWereTakenAreSent", "(%a, %s, %v)", "(%a, %t, %v)",
       "line 7, column 1: operand %t does not have the rows of round 0"},
      {"RowsAreSentOnce", "collective_permute(%u)", "collective_permute(%s)",
       "line 6, column 1: the rows have been received already"},
      {"NobodyElseReadsRowsThatAreSent", "output(%w) w",
       "%m : f32[halo-x:4/x, c:5] = map(%s) neg\noutput(%w) w",
       "line 9, column 1: operand %s has rows that are sent to another rank"},
      {"EveryRoundIsAnOperand", "(%a, %s, %v)", "(%a, %s)",
       "line 7, column 1: there must be 3 operands"},
      {"ARoundExists", "round 1", "round 2",
       "line 5, column 1: there are 2 rounds"},
      {"OnlyTakeRowsHasARound", "span 3 over{x}", "span 3 round 0 over{x}",
       "line 7, column 1: there are 2 rounds"},
      {"TheSizeIsThatOfTheSource", "from{8 at 1} to 8 span 3 over",
       "from{7 at 1} to 8 span 3 over",
       "line 7, column 1: dimension \"b\" has another size"},
      {"TheLineHasThePositionsOfAllRanks", "%p : f32[halo-x:16/x",
       "%p : f32[halo-x:20/x",
       "line 7, column 1: dimension \"halo-x\" has another size"},
      {"WindowsFitIntoTheLine", "k of halo-x", "k of halo-x dilation 2",
       "line 8, column 1: dimension \"halo-x\" does not fit into its range"},
      {"WindowsAreOfADimensionOfTheLine", "k of halo-x", "k of c",
       "line 8, column 1: dimension \"b\" changes"},
      {"PositionsDoNotOverflow", "to 8 span 3 over",
       "to 8 stride 1152921504606846976 span 3 over",
       "line 7, column 1: dimension \"b\" does not fit into its range"},
      {"ARepeatIsBounded", "to 8 span 3 over",
       "to 8 stride 4503599627370496 span 3 wrap over",
       "line 7, column 1: dimension \"b\" repeats too often"},
      {"APermutationIsOne", "(%t) shift 1", "(%t) from{0, 0, 1, 2}",
       "line 4, column 1: the ranks to receive from are not a permutation"},
      {"OnlyTakenRowsMoveByAList", "output(%w) w",
       "%q : f32[b:8/x, c:5] = collective_permute(%a) from{1, 0, 3, 2} "
       "over{x}\noutput(%w) w",
       "line 9, column 1: only rows that were taken move by a list of ranks"},
      {"RowsAreShardedOverTheAxes", "%a : f32[b:8/x, c:5]",
       "%a : f32[b:8, c:5/x]",
       "line 3, column 1: dimension \"b\" is sharded in two ways"},
  };
}

class VerifyRowsTest : public ::testing::TestWithParam<BrokenRows> {};

TEST_P(VerifyRowsTest, NamesTheLine) {
  const std::string text =
      absl::StrReplaceAll(kHalos, {{GetParam().from, GetParam().to}});
  ASSERT_NE(text, kHalos);
  const auto program = ParseText(text);
  ASSERT_FALSE(program.ok());
  const std::string message(program.status().message());
  EXPECT_EQ(message.substr(0, message.find('\n')), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(Rules, VerifyRowsTest,
                         ::testing::ValuesIn(AllBrokenRows()),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST(VerifyRows, AcceptsThem) { EXPECT_OK(ParseText(kHalos)); }

}  // namespace
}  // namespace mtf::testing
