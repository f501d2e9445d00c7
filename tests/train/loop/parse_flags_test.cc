// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include "train/loop/parse_flags.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "train/loop/flags.h"

ABSL_FLAG(mtf::train::Fraction, test_fraction, 0, "a flag of this test");
ABSL_FLAG(bool, test_switch, false, "a flag of this test");

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// Flags are global, so every test restores them.
class Flags : public ::testing::Test {
 protected:
  std::string WriteFile(const std::string& name, const std::string& text) {
    const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
    std::ofstream(path) << text;
    return path;
  }

 private:
  absl::FlagSaver saver_;
};

TEST_F(Flags, EveryFormSetsAValue) {
  ASSERT_OK(ParseFlags({"--steps=7", "--learning-rate", "0.5", "-seed=3",
                        "--test_switch", "--text=a=b"}));
  EXPECT_EQ(absl::GetFlag(FLAGS_steps), 7);
  EXPECT_EQ(absl::GetFlag(FLAGS_learning_rate), 0.5);
  EXPECT_EQ(absl::GetFlag(FLAGS_seed), 3u);
  EXPECT_TRUE(absl::GetFlag(FLAGS_test_switch));
  EXPECT_EQ(absl::GetFlag(FLAGS_text), "a=b");
}

TEST_F(Flags, BoolsTakeBothNegations) {
  ASSERT_OK(ParseFlags({"--test_switch", "--notest_switch"}));
  EXPECT_FALSE(absl::GetFlag(FLAGS_test_switch));
  ASSERT_OK(ParseFlags({"--test_switch", "--test_switch=false"}));
  EXPECT_FALSE(absl::GetFlag(FLAGS_test_switch));
}

TEST_F(Flags, TheLastValueOfARepeatedFlagApplies) {
  ASSERT_OK(ParseFlags({"--steps=7", "--steps=8"}));
  EXPECT_EQ(absl::GetFlag(FLAGS_steps), 8);
}

TEST_F(Flags, ANegativeNumberIsAValue) {
  EXPECT_THAT(
      ParseFlags({"--steps", "-3"}),
      StatusIs(kInvalid, HasSubstr("flag --steps is \"-3\", not a whole "
                                   "number from 1 to 2147483647")));
}

struct BadValue {
  std::string argument;
  std::string allowed;
};

class BadValues : public ::testing::TestWithParam<BadValue> {};

TEST_P(BadValues, AreErrorsWithTheRange) {
  const absl::FlagSaver saver;
  EXPECT_THAT(ParseFlags({GetParam().argument}),
              StatusIs(kInvalid, HasSubstr(GetParam().allowed)))
      << GetParam().argument;
}

INSTANTIATE_TEST_SUITE_P(
    Ranges, BadValues,
    ::testing::ValuesIn(std::vector<BadValue>{
        {"--steps=0", "\"0\", not a whole number from 1 to 2147483647"},
        {"--steps=2147483648", "from 1 to 2147483647"},
        {"--steps=99999999999999999999", "from 1 to 2147483647"},
        {"--steps=1e3", "from 1 to 2147483647"},
        {"--steps=", "\"\", not a whole number"},
        {"--steps=nan", "from 1 to 2147483647"},
        {"--learning_rate=nan", "\"nan\", not a number above 0"},
        {"--learning_rate=inf", "\"inf\", not a number above 0"},
        {"--learning_rate=-inf", "a number above 0"},
        {"--learning_rate=-0.1", "a number above 0 and at most 1000"},
        {"--learning_rate=0", "a number above 0 and at most 1000"},
        {"--learning_rate=1001", "a number above 0 and at most 1000"},
        {"--learning_rate=1e-3x", "a number above 0 and at most 1000"},
        {"--seed=-1", "a whole number from 0 to 4294967295"},
        {"--seed=4294967296", "a whole number from 0 to 4294967295"},
        {"--test_fraction=1", "a number from 0 to below 1"},
        {"--test_fraction=nan", "a number from 0 to below 1"},
        {"--test_fraction=-0.5", "a number from 0 to below 1"},
        {"--test_switch=maybe", "\"maybe\", not true or false"},
    }));

TEST_F(Flags, AnInvalidValueKeepsTheFlag) {
  ASSERT_OK(ParseFlags({"--learning_rate=0.25"}));
  EXPECT_THAT(ParseFlags({"--learning_rate=nan"}), Not(mtf::testing::IsOk()));
  EXPECT_EQ(absl::GetFlag(FLAGS_learning_rate), 0.25);
}

TEST_F(Flags, AnUnknownFlagSuggestsTheNearestName) {
  EXPECT_THAT(ParseFlags({"--step=7"}),
              StatusIs(kInvalid, HasSubstr("unknown flag --step; did you mean "
                                           "--steps?")));
  EXPECT_THAT(ParseFlags({"--mesh_shpae=data:2"}),
              StatusIs(kInvalid, HasSubstr("did you mean --mesh_shape?")));
  EXPECT_THAT(ParseFlags({"--nothing_like_it"}),
              StatusIs(kInvalid, AllOf(HasSubstr("unknown flag "
                                                 "--nothing_like_it"),
                                       Not(HasSubstr("did you mean")))));
  // "no" before a flag that is not a bool.
  EXPECT_THAT(ParseFlags({"--nosteps"}),
              StatusIs(kInvalid, HasSubstr("unknown flag --nosteps")));
}

TEST_F(Flags, AMissingValueIsAnError) {
  EXPECT_THAT(ParseFlags({"--steps"}),
              StatusIs(kInvalid, HasSubstr("flag --steps has no value")));
}

TEST_F(Flags, AStrayArgumentIsAnError) {
  for (const char* stray : {"data:2", "", "-"}) {
    EXPECT_THAT(ParseFlags({"--steps=7", stray}),
                StatusIs(kInvalid,
                         HasSubstr(absl::StrCat("unexpected argument \"", stray,
                                                "\": flags start with --"))));
  }
  // The shell splits a layout without quotes at its blanks.
  EXPECT_THAT(
      ParseFlags({"--layout", "batch:data,", "d_ff:model"}),
      StatusIs(kInvalid, HasSubstr("unexpected argument \"d_ff:model\"")));
}

TEST_F(Flags, TheCommandLineTakesPrecedenceOverAFlagfile) {
  const std::string path = WriteFile(
      "run.flags",
      "# a comment\n\n  --steps=7  \n--layout=batch:data, d_ff:model\n"
      "--test_switch\n--seed 5\n");
  EXPECT_THAT(ParseFlags({"--steps=9", "--flagfile", path}),
              StatusIs(kInvalid, HasSubstr("--seed 5")));
  WriteFile("run.flags", "# a comment\n\n  --steps=7  \n--test_switch\n");
  ASSERT_OK(ParseFlags({"--steps=9", absl::StrCat("--flagfile=", path)}));
  EXPECT_EQ(absl::GetFlag(FLAGS_steps), 9);
  EXPECT_TRUE(absl::GetFlag(FLAGS_test_switch));
}

TEST_F(Flags, ErrorsInAFlagfileNameIt) {
  const std::string path = WriteFile("bad.flags", "--steps=none\n");
  EXPECT_THAT(ParseFlags({absl::StrCat("--flagfile=", path)}),
              StatusIs(kInvalid, AllOf(HasSubstr("flag --steps is \"none\""),
                                       HasSubstr("bad.flags"))));
  EXPECT_THAT(ParseFlags({"--flagfile=/no/such.flags"}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("cannot read flagfile \"/no/such.flags\"")));
}

TEST_F(Flags, AFlagfileThatIncludesItselfIsAnError) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/circle.flags");
  WriteFile("circle.flags", absl::StrCat("--flagfile=", path, "\n"));
  EXPECT_THAT(ParseFlags({absl::StrCat("--flagfile=", path)}),
              StatusIs(kInvalid, HasSubstr("includes itself")));
}

TEST_F(Flags, HelpListsFlagsWithDefaults) {
  EXPECT_TRUE(HasHelpFlag({"--steps=7", "--help"}));
  EXPECT_FALSE(HasHelpFlag({"--steps=7"}));
  const std::string help = HelpText("Trains.");
  EXPECT_THAT(help, AllOf(HasSubstr("Trains."), HasSubstr("--steps=1000"),
                          HasSubstr("training steps")));
}

TEST(FindFlagValue, IsTheLastOneBeforeTheEndOfTheFlags) {
  EXPECT_EQ(FindFlagValue({"--other=1", "--limit=2", "--limit", "3"}, "limit"),
            "3");
  EXPECT_EQ(FindFlagValue({"-limit=", "--", "--limit=4"}, "limit"), "");
  for (const char* argument :
       {"--limits=1", "limit=1", "--limit", "--nolimit"}) {
    EXPECT_EQ(FindFlagValue({argument}, "limit"), absl::nullopt) << argument;
  }
}

}  // namespace
}  // namespace mtf::train
