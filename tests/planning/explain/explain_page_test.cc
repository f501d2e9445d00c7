// SPDX-License-Identifier: Apache-2.0
//
// The page of an explanation: it is one file, and its scripts fit its data.
#include "planning/explain/explain_page.h"

#include <regex>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/planning/explain/explain_test.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The JSON of the element "explanation".
nlohmann::json DataOf(const std::string& html) {
  const std::string open =
      "<script type=\"application/json\" id=\"explanation\">";
  const size_t begin = html.find(open);
  if (begin == std::string::npos) return {};
  const size_t end = html.find("</script>", begin);
  return nlohmann::json::parse(
      html.substr(begin + open.size(), end - begin - open.size()));
}

// All matches of the first group of `pattern` in the page without data.
std::set<std::string> MatchesInPage(const std::string& pattern) {
  const std::string page(internal::ExplainPage());
  const std::regex regex(pattern);
  std::set<std::string> matches;
  for (std::sregex_iterator match(page.begin(), page.end(), regex), end;
       match != end; ++match) {
    matches.insert((*match)[1]);
  }
  return matches;
}

class Page : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Explain, Page,
                         ::testing::ValuesIn(LayoutRules::PresetNames()),
                         [](const auto& info) { return info.param; });

TEST_P(Page, ContainsTheJson) {
  const Explained step(GetParam());
  ASSERT_OK(step.explanation);
  EXPECT_EQ(DataOf(ExplainHtml(*step.explanation)),
            nlohmann::json::parse(ExplainJson(*step.explanation)));
}

TEST(ExplainPage, IsSelfContained) {
  const Explained step("megatron");
  ASSERT_OK(step.explanation);
  const std::string html = ExplainHtml(*step.explanation);
  EXPECT_THAT(html, ::testing::StartsWith("<!DOCTYPE html>"));
  for (const char* link :
       {"src=", "href=", "@import", "url(", "fetch(", "import(", "https://",
        "XMLHttpRequest", "WebSocket", "@DATA@"}) {
    EXPECT_THAT(html, Not(HasSubstr(link))) << link;
  }
  // The only address is the name of the namespace of SVG.
  EXPECT_EQ(html.find("http://www.w3.org/2000/svg"), html.find("http://"));
  EXPECT_EQ(html.find("http://"), html.rfind("http://"));
}

TEST(ExplainPage, NamesCannotEndTheScriptElement) {
  Explanation e;
  e.machine = "</script><!-- \xff";
  e.program = "</script><script>alert(1)";
  const std::string html = ExplainHtml(e);
  EXPECT_THAT(html, Not(HasSubstr("</script><!--")));
  EXPECT_THAT(html, HasSubstr("\\u003c/script>\\u003c!--"));
  EXPECT_EQ(DataOf(html)["program"], e.program);
}

// The scripts make no HTML out of names.
TEST(ExplainPage, NamesAreText) {
  for (const char* unsafe : {"innerHTML", "outerHTML", "insertAdjacentHTML",
                             "document.write", "eval("}) {
    EXPECT_THAT(internal::ExplainPage(), Not(HasSubstr(unsafe))) << unsafe;
  }
}

TEST(ExplainPage, ScriptsReadOnlyKeysThatExist) {
  const Explained step("data_model");
  ASSERT_OK(step.explanation);
  const nlohmann::json json =
      nlohmann::json::parse(ExplainJson(*step.explanation));
  const std::set<std::string> keys = MatchesInPage("\\bdata\\.(\\w+)");
  EXPECT_GT(keys.size(), 20u);
  for (const std::string& key : keys) EXPECT_TRUE(json.contains(key)) << key;
  // A column has a key of its rows, or one that the page adds.
  std::set<std::string> columns;
  for (const char* list : {"collectives", "einsums", "by_module", "rules"}) {
    for (const auto& [key, value] : json[list][0].items()) columns.insert(key);
  }
  for (const auto& [key, value] : json["memory"]["alive"][0].items()) {
    columns.insert(key);
  }
  for (const auto& [key, value] : json["cost"].items()) columns.insert(key);
  columns.insert({"calls", "edit", "layout", "label", "removed_by"});
  for (const std::string& key :
       MatchesInPage("olumn\\(\"[a-z ]+\", \"(\\w+)\"")) {
    EXPECT_EQ(columns.count(key), 1u) << key;
  }
}

TEST(ExplainPage, ScriptsUseOnlyElementsThatExist) {
  const std::set<std::string> ids = MatchesInPage(" id=\"(\\w+)\"");
  std::set<std::string> used = MatchesInPage("\\$\\(\"(\\w+)\"\\)");
  used.merge(MatchesInPage("new Table\\(\"(\\w+)\""));
  EXPECT_GT(used.size(), 15u);
  for (const std::string& id : used) EXPECT_EQ(ids.count(id), 1u) << id;
}

TEST(ExplainPage, FollowsTheThemeOfTheSystem) {
  EXPECT_THAT(internal::ExplainPage(), HasSubstr("prefers-color-scheme: dark"));
  // Both themes define the same colors.
  const std::string page(internal::ExplainPage());
  std::set<std::string> themes[2];
  const size_t dark = page.find(":root[data-theme=\"dark\"]");
  ASSERT_NE(dark, std::string::npos);
  const std::regex definition("(--[\\w-]+):");
  for (int theme : {0, 1}) {
    const size_t begin = theme == 0 ? page.find(":root {") : dark;
    const std::string block = page.substr(begin, page.find('}', begin) - begin);
    for (std::sregex_iterator match(block.begin(), block.end(), definition),
         end;
         match != end; ++match) {
      themes[theme].insert((*match)[1]);
    }
  }
  EXPECT_GT(themes[0].size(), 10u);
  EXPECT_EQ(themes[0], themes[1]);
}

}  // namespace
}  // namespace mtf::testing
