// SPDX-License-Identifier: Apache-2.0
// Build: optimised only (checks the output of other programs)
//
// --search of the examples.

#include <cstdio>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#ifdef TRANSFORMER_LM  // a build without the examples has none
#include "tests/run_command.h"

namespace mtf::train {
namespace {

using ::mtf::testing::Outcome;
using ::mtf::testing::RunCommand;
using ::mtf::testing::Temporary;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Outcome RunProgram(const std::string& program, const std::string& arguments) {
  // Without a machine file of the user.
  return RunCommand(absl::StrCat("MTF_MACHINES=/no/such/folder timeout 60 ",
                                 program, " ", arguments));
}

Outcome SearchReadmeProgram(const std::string& arguments) {
  return RunProgram(
      README_PROGRAM,
      absl::StrCat("--search --mesh_shape=data:2,model:2 ", arguments));
}

// The lines of `text` that begin with `start`.
std::vector<std::string> LinesWith(const std::string& text,
                                   const std::string& start) {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(line, start)) lines.emplace_back(line);
  }
  return lines;
}

// The cells of the row of the table for `layout`.
std::vector<std::string> Row(const Outcome& outcome,
                             const std::string& layout) {
  for (const absl::string_view line : absl::StrSplit(outcome.out, '\n')) {
    const std::vector<std::string> words =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() > 2 && words[0] == layout && words[1] != "--layout=") {
      return words;
    }
  }
  return {};
}

TEST(SearchCli, ShowsTheBestLayoutsBesideThePresentOne) {
  const Outcome outcome = SearchReadmeProgram("--layout=batch:model");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(
      outcome.out,
      AllOf(StartsWith("search of layouts for mesh data:2,model:2 of machine "
                       "cpu_host, with "),
            ContainsRegex("\n[0-9]+ layouts: "),
            HasSubstr("\n layout     step  compute  exposed"),
            ContainsRegex("\npresent +[0-9.]+ us "),
            ContainsRegex("\n +1 +[0-9.]+ us "),
            ContainsRegex("\n1  --layout='batch:[^\n]+'\n"),
            Not(HasSubstr("loss"))));
}

// A layout is explained with the cost that the table has.
TEST(SearchCli, ItsLayoutsCanBePasted) {
  const Outcome outcome = SearchReadmeProgram("");
  const std::vector<std::string> row = Row(outcome, "1");
  ASSERT_GE(row.size(), 3u) << outcome.out << outcome.errors;
  std::vector<std::string> flags;
  for (const char* start : {"1  --layout=", "2  --layout=", "3  --layout="}) {
    for (const std::string& line : LinesWith(outcome.out, start)) {
      flags.push_back(line.substr(3));
    }
  }
  ASSERT_EQ(flags.size(), 3u) << outcome.out;
  for (const std::string& flag : flags) {
    const Outcome explained = RunProgram(
        README_PROGRAM,
        absl::StrCat("--explain --mesh_shape=data:2,model:2 ", flag));
    EXPECT_EQ(explained.exit_code, 0) << explained.errors;
    if (&flag != &flags[0]) continue;
    EXPECT_THAT(explained.out, HasSubstr(absl::StrCat("\nstep ", row[1], " ",
                                                      row[2], ": compute ")));
  }
}

TEST(SearchCli, KeepsTheBudgetsOfTheFlagAndOfTheLayout) {
  const Outcome flag = SearchReadmeProgram("--budget='nothing over data'");
  EXPECT_EQ(flag.exit_code, 0) << flag.errors;
  EXPECT_THAT(flag.out, Not(ContainsRegex("--layout='[^\n]*:[^\n]*data")));
  const Outcome layout =
      SearchReadmeProgram("--layout='batch:model, [budget] nothing over data'");
  EXPECT_EQ(layout.exit_code, 0) << layout.errors;
  EXPECT_THAT(layout.out, HasSubstr(", [budget] nothing over data'\n"));
  EXPECT_THAT(layout.out, Not(ContainsRegex("--layout='[^\n]*:[^ ,]*data")));
  const Outcome none = SearchReadmeProgram("--budget='memory at most 1 KiB'");
  EXPECT_EQ(none.exit_code, 71);
  EXPECT_THAT(none.errors, StartsWith("RESOURCE_EXHAUSTED "));
}

TEST(SearchCli, TakesTheMachineAndTheRequestOfTheFlags) {
  EXPECT_THAT(SearchReadmeProgram("--machine=h200_x8").out,
              HasSubstr(" of machine h200_x8, "));
  EXPECT_THAT(SearchReadmeProgram("--dry_run").out,
              HasSubstr(" of machine h100_nvlink_ib, "));
  const std::string text = Temporary("search.txt");
  std::ofstream(text) << std::string(4096, 'a');
  const Outcome sample = RunProgram(
      TRANSFORMER_LM,
      absl::StrCat("--search --explain_request=sample --mesh_shape=model:2 "
                   "--text=",
                   text));
  std::remove(text.c_str());
  EXPECT_EQ(sample.exit_code, 0) << sample.errors;
  EXPECT_THAT(sample.out, AllOf(HasSubstr("this is the request sample"),
                                HasSubstr("\n1  --layout='")));
}

TEST(SearchCli, WrongUsesAreErrors) {
  for (const auto& [arguments, code, message] :
       std::vector<std::tuple<std::string, int, std::string>>{
           {"--search", 2,
            "INVALID_ARGUMENT --search needs a mesh of several devices\n"},
           {"--search --mesh_shape=data:1", 2,
            "INVALID_ARGUMENT --search needs a mesh of several devices\n"},
           {"--search --explain --mesh_shape=data:2", 2,
            "INVALID_ARGUMENT both --search and --explain are given\n"},
           {"--search --explain_file=x --mesh_shape=data:2", 2,
            "INVALID_ARGUMENT --explain_file is given without --explain\n"},
           {"--search --mesh_shape=data:2 --layout=bach:data", 2,
            "INVALID_ARGUMENT "},
           {"--search --mesh_shape=data:2 --budget='nothin over data'", 2,
            "INVALID_ARGUMENT "},
           {"--search --mesh_shape=data:16 --machine=h200_x8", 2,
            "INVALID_ARGUMENT mesh \"data:16\""}}) {
    const Outcome outcome = RunProgram(README_PROGRAM, arguments);
    EXPECT_EQ(outcome.exit_code, code) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_THAT(outcome.errors, StartsWith(message)) << arguments;
  }
}

}  // namespace
}  // namespace mtf::train

#endif  // TRANSFORMER_LM
