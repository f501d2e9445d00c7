// SPDX-License-Identifier: Apache-2.0
// Build: optimised only (checks the output of other programs)
//
// mtf search checks its output file before it searches, and leaves an existing
// file unchanged until there is a result.
#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/run_command.h"

namespace mtf {
namespace {

using ::mtf::testing::Outcome;
using ::mtf::testing::ReadText;
using ::mtf::testing::RunCommand;
using ::mtf::testing::Temporary;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// No layout fits into one byte, so a search would end with this error.
Outcome SearchInVain(const std::string& output) {
  return RunCommand(absl::StrCat(
      "timeout 120 ", MTF_COMMAND,
      " search --mesh=data:2 --layers=1 --sections=false --memory=1B --output=",
      output));
}

TEST(SearchOutput, IsCheckedBeforeTheSearch) {
  for (const char* path : {"/no/such/folder/a.layout", "/"}) {
    const Outcome outcome = SearchInVain(path);
    EXPECT_EQ(outcome.exit_code, 73) << outcome.errors;
    EXPECT_THAT(outcome.errors,
                StartsWith(absl::StrCat(
                    "PERMISSION_DENIED cannot write the output to \"", path)));
  }
}

TEST(SearchOutput, IsUnchangedWithoutAResult) {
  const std::string path = Temporary("search_output.layout");
  std::remove(path.c_str());
  Outcome outcome = SearchInVain(path);
  EXPECT_EQ(outcome.exit_code, 71) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("no layout fits into 1 byte"));
  EXPECT_FALSE(std::ifstream(path).good()) << "an empty file is left behind";
  std::ofstream(path) << "batch:data\n";
  outcome = SearchInVain(path);
  EXPECT_EQ(outcome.exit_code, 71) << outcome.errors;
  EXPECT_EQ(ReadText(path), "batch:data\n");
  std::remove(path.c_str());
}

}  // namespace
}  // namespace mtf
