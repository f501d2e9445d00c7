// SPDX-License-Identifier: Apache-2.0
//
// Checks docs/coverage.md: each header in its tables declares the names in its
// row, and each test uses one of these names.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

std::string TextOf(const fs::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The words in backquotes: `A` and `B` in "`A`, `B` with an option".
std::vector<std::string> Quoted(const std::string& cell) {
  static const std::regex quoted("`([^`]+)`");
  std::vector<std::string> words;
  for (std::sregex_iterator at(cell.begin(), cell.end(), quoted), end;
       at != end; ++at) {
    words.push_back((*at)[1]);
  }
  return words;
}

bool HasWord(const std::string& text, const std::string& word) {
  return std::regex_search(text, std::regex(absl::StrCat("\\b", word, "\\b")));
}

// A row of a table: "| names | what does it here | header | test |".
struct Row {
  std::string line, names, here, header, test;
};

std::vector<Row> Rows() {
  std::vector<Row> rows;
  const std::string page = TextOf(fs::path(DOCS_ROOT) / "docs/coverage.md");
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    if (!absl::StartsWith(line, "| `")) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    EXPECT_EQ(cells.size(), 6) << line;
    if (cells.size() != 6) continue;
    const auto cell = [&](int i) {
      return std::string(absl::StripAsciiWhitespace(cells[i]));
    };
    rows.push_back({std::string(line), cell(1), cell(2), cell(3), cell(4)});
  }
  return rows;
}

TEST(CoveragePage, NamesHeadersAndTestsThatExist) {
  const std::vector<Row> rows = Rows();
  EXPECT_GT(rows.size(), 50);
  for (const Row& row : rows) {
    SCOPED_TRACE(row.line);
    EXPECT_FALSE(row.here.empty());
    const std::vector<std::string> headers = Quoted(row.header);
    const std::vector<std::string> tests = Quoted(row.test);
    // No counterpart: `here` is the reason.
    if (headers.empty() && tests.empty()) continue;
    ASSERT_EQ(headers.size(), 1);
    ASSERT_EQ(tests.size(), 1);
    const std::string header = TextOf(fs::path(DOCS_ROOT) / headers[0]);
    const std::string test = TextOf(fs::path(DOCS_ROOT) / tests[0]);
    const std::vector<std::string> words = Quoted(row.here);
    EXPECT_FALSE(words.empty());
    for (const std::string& word : words) {
      EXPECT_TRUE(HasWord(header, word)) << word << " in " << headers[0];
    }
    EXPECT_TRUE(std::any_of(
        words.begin(), words.end(),
        [&](const std::string& word) { return HasWord(test, word); }))
        << tests[0];
  }
}

TEST(CoveragePage, HasEachNameOnce) {
  std::set<std::string> seen;
  for (const Row& row : Rows()) {
    for (const std::string& name : Quoted(row.names)) {
      EXPECT_TRUE(seen.insert(name).second) << name;
    }
  }
}

}  // namespace
}  // namespace mtf
