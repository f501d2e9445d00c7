// SPDX-License-Identifier: Apache-2.0
//
// Explanations as text and JSON.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "planning/explain/explain_parts.h"
#include "planning/explain/explain_text.h"
#include "tests/planning/explain/explain_test.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Forms : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Explain, Forms,
                         ::testing::ValuesIn(LayoutRules::PresetNames()),
                         [](const auto& info) { return info.param; });

TEST(ExplainText, ModuleIsTheFirstPartOfANameOrTheFirstTwoInALayer) {
  using internal::ModuleOf;
  EXPECT_EQ(ModuleOf("layer_0/attention/output/einsum"), "layer_0/attention");
  EXPECT_EQ(ModuleOf("layer_12/add_1"), "layer_12");
  EXPECT_EQ(ModuleOf("embedding/table/gather"), "embedding");
  EXPECT_EQ(ModuleOf("einsum_1"), "(top)");
  EXPECT_EQ(ModuleOf("_1/a/b"), "_1");
  EXPECT_EQ(ModuleOf("1/a/b"), "1");
  EXPECT_EQ(ModuleOf("layer_12345678901/a/b"), "layer_12345678901");
  EXPECT_EQ(ModuleOf(""), "(top)");
}

TEST(ExplainText, UnitsHaveThreeDigits) {
  EXPECT_EQ(internal::SecondsText(0), "0");
  EXPECT_EQ(internal::SecondsText(1.234e-6), "1.23 us");
  EXPECT_EQ(internal::SecondsText(0.99999e-3), "1 ms");
  EXPECT_EQ(internal::SecondsText(72), "72 s");
  EXPECT_EQ(internal::BytesText(1023), "1023 B");
  EXPECT_EQ(internal::BytesText(1536), "1.50 KiB");
  EXPECT_EQ(internal::BytesText(-80.0 * (1 << 20)), "-80.0 MiB");
  EXPECT_EQ(internal::FlopsText(999), "999 FLOP");
  EXPECT_EQ(internal::FlopsText(2.5e12), "2.5 TFLOP");
}

// The text after the line that begins with `title`, up to an empty line.
std::string TextAfter(const std::string& text, const std::string& title) {
  const size_t begin = text.find("\n" + title);
  if (begin == std::string::npos) return "";
  const size_t from = text.find('\n', begin + 1) + 1;
  return text.substr(from, text.find("\n\n", from) - from);
}

// Joins the words of all lines by single blanks.
std::string OneLine(absl::string_view text) {
  return absl::StrJoin(
      absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty()), " ");
}

void ExpectLinesFit(const std::string& text, int width) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    EXPECT_LE(static_cast<int>(line.size()), width) << line;
    EXPECT_FALSE(absl::EndsWith(line, " ")) << line;
  }
}

// At any width, lines fit and nothing is missing: cells that do not fit
// continue on the next line.
TEST_P(Forms, TextOfAnyWidthIsComplete) {
  const Explained step(GetParam());
  ASSERT_OK(step.explanation);
  Explanation e = *step.explanation;
  e.memory.parts.parameters = e.memory.arena = 1'000'000'000'000;
  for (int width : {60, 80, 100, 120, 200}) {
    SCOPED_TRACE(width);
    const std::string text = ExplainFullText(e, width);
    ExpectLinesFit(text, width);
    ExpectLinesFit(ExplainText(e, width), width);
    const std::string table = OneLine(TextAfter(text, "collectives, "));
    if (e.collectives.empty()) continue;
    for (const char* title :
         {"no collective axis calls sent time exposed", "tensor", "made at",
          "dimension", "rule", "rule from", "removed by"}) {
      EXPECT_THAT(table, HasSubstr(title));
    }
    for (const ExplainedCollective& c : e.collectives) {
      // Equal layers share one row, whose name has a range of layers.
      const internal::LayerName tensor = internal::SplitLayer(c.tensor);
      EXPECT_THAT(table, HasSubstr(tensor.suffix));
      EXPECT_THAT(table, HasSubstr(c.site));
      EXPECT_THAT(table, HasSubstr(c.rule));
      EXPECT_THAT(table, HasSubstr(c.rule_origin));
      EXPECT_THAT(table, HasSubstr(c.change < 0 ? "none: " + c.no_change
                                                : e.changes[c.change].edit));
      // Rows of updates name the first operation and the number of others.
      const internal::LayerName operation = internal::SplitLayer(c.operation);
      if (operation.layer >= 0 || tensor.layer < 0) {
        EXPECT_THAT(table, HasSubstr(operation.suffix));
      }
    }
    const std::string einsums = OneLine(TextAfter(text, "einsums, "));
    for (const ExplainedEinsum& einsum : e.einsums) {
      EXPECT_THAT(einsums, HasSubstr(einsum.sharding));
      EXPECT_THAT(einsums, HasSubstr(einsum.site));
    }
  }
}

TEST(ExplainText, WideRowContinuesOnAnIndentedLine) {
  const Explained step("megatron");
  ASSERT_OK(step.explanation);
  const std::string table =
      TextAfter(ExplainFullText(*step.explanation, 80), "collectives, ");
  const std::vector<std::string> lines = absl::StrSplit(table, '\n');
  // The titles come first, then the rows, each with as many lines.
  size_t row = 0;
  while (row < lines.size() && !absl::StartsWith(lines[row], " 1  all_red")) {
    ++row;
  }
  ASSERT_GT(row, 1u);
  ASSERT_LT(row + 1, lines.size());
  EXPECT_THAT(lines[0], ::testing::StartsWith("no  collective  axis   calls"));
  EXPECT_THAT(lines[1], ::testing::StartsWith("      tensor  "));
  EXPECT_THAT(lines[row + 1], ::testing::StartsWith("      embedding/gather"));
  EXPECT_THAT(lines[row + 2], ::testing::StartsWith("      "));
}

// The cells of the lines from `title` to the next empty line.
std::vector<std::vector<std::string>> CellsAfter(const std::string& text,
                                                 absl::string_view title) {
  std::vector<std::vector<std::string>> rows;
  bool inside = false;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(line, title)) {
      inside = true;
    } else if (line.empty()) {
      inside = false;
    } else if (inside) {
      rows.push_back(absl::StrSplit(line, "  ", absl::SkipWhitespace()));
    }
  }
  return rows;
}

TEST(ExplainText, EqualLayersShareARowAndTotalsStayExact) {
  const Explained two("megatron", 2), six("megatron", 6);
  ASSERT_OK(two.explanation);
  ASSERT_OK(six.explanation);
  const std::string text = ExplainFullText(*six.explanation, 400);
  EXPECT_THAT(text, HasSubstr("layer_0..5/attention/output/einsum"));
  const auto few =
      CellsAfter(ExplainFullText(*two.explanation, 400), "collectives, ");
  const auto many = CellsAfter(text, "collectives, ");
  EXPECT_EQ(few.size(), many.size());
  ASSERT_GT(many.size(), 2u);
  int64_t calls = 0, bytes = 0;
  for (const internal::CollectiveGroup& group :
       internal::GroupCollectives(*six.explanation)) {
    calls += group.calls;
    bytes += group.bytes;
  }
  EXPECT_EQ(calls, static_cast<int64_t>(six.explanation->collectives.size()));
  EXPECT_EQ(bytes, six.explanation->cost.wire_bytes);
}

TEST_P(Forms, TextOfTwoLayersFitsOnAScreen) {
  const Explained step(GetParam());
  ASSERT_OK(step.explanation);
  const std::string text = ExplainText(*step.explanation, 120);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 58) << text;
}

// Rows that are left out are counted in a line below the table.
TEST_P(Forms, TextAccountsForEveryCollective) {
  const Explained step(GetParam());
  ASSERT_OK(step.explanation);
  int64_t calls = 0;
  for (const std::vector<std::string>& row :
       CellsAfter(ExplainText(*step.explanation, 400), "collectives, ")) {
    const std::vector<std::string> words = absl::StrSplit(row[0], ' ');
    int64_t number = 0;
    if (absl::SimpleAtoi(words[words[0] == "and" ? 1 : 0], &number)) {
      calls += number;
    }
  }
  EXPECT_EQ(calls, static_cast<int64_t>(step.explanation->collectives.size()));
}

// The change that drops the rule of a collective needs no column of its own.
TEST(ExplainText, NamesOtherChangesThanDroppingTheRule) {
  const Explained step("megatron");
  ASSERT_OK(step.explanation);
  Explanation e = *step.explanation;
  EXPECT_THAT(TextAfter(ExplainText(e, 400), "collectives, "),
              Not(HasSubstr("removed by")));
  e.collectives[0].change = -1;
  e.collectives[0].no_change = "the test says so";
  EXPECT_THAT(TextAfter(ExplainText(e, 400), "collectives, "),
              HasSubstr("none: the test says so"));
}

TEST(ExplainText, SaysWhetherTheMachineWasComparedToMeasuredSteps) {
  Explanation e;
  e.machine = "example";
  EXPECT_THAT(ExplainText(e, 120),
              HasSubstr("\nestimates for machine example, never compared to a "
                        "measured training step\n"));
  e.machine_checked = "two steps, within 4 %";
  EXPECT_THAT(ExplainText(e, 120),
              HasSubstr("\nestimates for machine example, compared to two "
                        "steps, within 4 %\n"));
}

TEST(ExplainText, ColorsChangeNoCharacterOfTheText) {
  const Explained step("data_model");
  ASSERT_OK(step.explanation);
  Explanation e = *step.explanation;
  e.notices = {"a notice of several words"};
  const std::string text = ExplainText(e, 60);
  const std::string colored = WithColors(text);
  EXPECT_THAT(colored, HasSubstr("\x1b[33mnote: a notice"));
  EXPECT_THAT(colored, HasSubstr("\x1b[1mmemory per rank"));
  EXPECT_EQ(absl::StrReplaceAll(
                colored, {{"\x1b[1m", ""}, {"\x1b[33m", ""}, {"\x1b[0m", ""}}),
            text);
}

TEST(ExplainText, SaysThatNothingIsSent) {
  const TwoLayers net;
  const auto e = ExplainTextLayout(net.graph, "rows:2", "", net.targets());
  ASSERT_OK(e);
  EXPECT_THAT(ExplainFullText(*e, 120),
              HasSubstr("no collectives: nothing is sent between devices\n"));
}

TEST(ExplainText, NamesTheMachine) {
  const TwoLayers net;
  const auto e = ExplainTextLayout(net.graph, "", "", net.targets());
  ASSERT_OK(e);
  EXPECT_THAT(ExplainFullText(*e, 120),
              HasSubstr("estimates for machine h100_nvlink_ib"));
}

TEST_P(Forms, JsonHasTheNumbers) {
  const Explained step(GetParam());
  ASSERT_OK(step.explanation);
  const Explanation& e = *step.explanation;
  const auto json = nlohmann::json::parse(ExplainJson(e));
  EXPECT_EQ(json["format"], "mtf.explanation.1");
  EXPECT_EQ(json["machine"], "h100_nvlink_ib");
  EXPECT_EQ(json["cost"]["wire_bytes"], e.cost.wire_bytes);
  EXPECT_EQ(json["cost"]["seconds"].get<double>(), e.cost.seconds);
  ASSERT_EQ(json["collectives"].size(), e.collectives.size());
  for (size_t i = 0; i < e.collectives.size(); ++i) {
    EXPECT_EQ(json["collectives"][i]["bytes"], e.collectives[i].bytes);
    EXPECT_EQ(json["collectives"][i]["rule"], e.collectives[i].rule);
    const auto& change = json["collectives"][i]["change"];
    EXPECT_EQ(change.is_null(), e.collectives[i].change < 0);
  }
  EXPECT_EQ(json["einsums"].size(), e.einsums.size());
  EXPECT_EQ(json["timeline"].size(), e.timeline.size());
  EXPECT_EQ(json["memory"]["alive"].size(), e.memory.alive.size());
  EXPECT_EQ(json["tensors"].size(), e.tensors.size());
}

// Without the graph, the memory that a rule saves is unknown.
TEST(ExplainJson, UnknownValuesAreNull) {
  const Explained step("data_model");
  ASSERT_OK(step.explanation);
  const auto binding = BindLayout(step.graph, step.mesh, step.rules);
  ASSERT_OK(binding);
  const auto program = Lower(step.graph, *binding, step.targets);
  ASSERT_OK(program);
  const auto alone = nlohmann::json::parse(
      ExplainJson(ExplainProgram(*program, TestMachine())));
  const auto full = nlohmann::json::parse(ExplainJson(*step.explanation));
  ASSERT_FALSE(alone["rules"].empty());
  for (const auto& rule : alone["rules"]) {
    EXPECT_TRUE(rule["memory_saved"].is_null());
    EXPECT_TRUE(rule["saved"].is_null());
    EXPECT_TRUE(rule["dropped"].is_null());
  }
  for (const auto& rule : full["rules"]) {
    EXPECT_TRUE(rule["memory_saved"].is_number_integer());
    int64_t sum = 0;
    for (const auto& [part, bytes] : rule["saved"].items()) {
      sum += bytes.get<int64_t>();
    }
    EXPECT_EQ(sum, rule["memory_saved"].get<int64_t>());
  }
  for (const auto& collective : full["collectives"]) {
    for (const auto& rule : collective["rules"]) {
      EXPECT_THAT(
          collective["rule"].get<std::string>(),
          HasSubstr(full["rules"][rule.get<int>()]["rule"].get<std::string>()));
    }
    EXPECT_FALSE(collective["rules"].empty());
  }
}

// As documented in docs/explain.md.
TEST_P(Forms, BytesInJsonAreIntegersExceptMovedAndBoundBytes) {
  const Explained step(GetParam());
  ASSERT_OK(step.explanation);
  const auto json = nlohmann::json::parse(ExplainJson(*step.explanation));
  const auto flat = json.flatten();
  for (const auto& [path, value] : flat.items()) {
    const std::string key = path.substr(path.rfind('/') + 1);
    if (absl::StrContains(key, "bytes") && !value.is_number_integer()) {
      EXPECT_TRUE(key == "moved_bytes" || key == "bound_bytes") << path;
    }
  }
}

}  // namespace
}  // namespace mtf::testing
