// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
//
// The parsers that fuzzers run accept their seeds, and mutations of them do not
// end the process.
#include "tests/fuzz/parsers.h"

#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/requirements.h"
#include "tests/train/data/data_files.h"

namespace mtf::fuzzing {
namespace {

// CMake makes a program of each name in parsers.txt.
TEST(FuzzedParsers, AreListedForTheBuild) {
  std::ifstream file(absl::StrCat(GOLDEN_DIR, "/../fuzz/parsers.txt"));
  std::vector<std::string> listed, names;
  for (std::string line; std::getline(file, line);) listed.push_back(line);
  for (const FuzzedParser& parser : AllParsers()) names.push_back(parser.name);
  EXPECT_EQ(listed, names);
}

TEST(FuzzedParsers, AcceptTheirSeeds) {
  for (const FuzzedParser& parser : AllParsers()) {
    EXPECT_FALSE(parser.seeds.empty()) << parser.name;
    for (const std::string& seed : parser.seeds) {
      EXPECT_OK(parser.parse(seed)) << parser.name;
    }
  }
}

TEST(FuzzedParsers, ReportMutatedSeeds) {
  const int mutations = mtf::testing::ThoroughTests() ? 5000 : 500;
  for (const FuzzedParser& parser : AllParsers()) {
    std::mt19937 random(29);
    int errors = 0;
    for (int i = 0; i < mutations; ++i) {
      const std::string& seed = parser.seeds[i % parser.seeds.size()];
      const absl::Status status =
          parser.parse(mtf::testing::Mutated(seed, random));
      if (status.ok()) continue;
      ++errors;
      EXPECT_FALSE(status.message().empty()) << parser.name;
    }
    // Lines and pairs have bad records, not errors.
    if (parser.name != "pairs" && parser.name != "json_lines") {
      EXPECT_GT(errors, 0) << parser.name;
    }
  }
}

}  // namespace
}  // namespace mtf::fuzzing
