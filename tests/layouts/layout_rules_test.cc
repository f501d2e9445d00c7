// SPDX-License-Identifier: Apache-2.0
#include "layouts/layout_rules.h"

#include <fstream>
#include <ostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/layouts/first_line.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

using ::mtf::testing::FirstLine;
using ::mtf::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LayoutRules, EmptyTextHasNoRules) {
  for (const char* text : {"", "  ", "# nothing\n", "[parameters]"}) {
    const absl::StatusOr<LayoutRules> rules = LayoutRules::Parse(text, "test");
    ASSERT_OK(rules) << text;
    EXPECT_TRUE(rules->rules().empty()) << text;
    EXPECT_EQ(rules->ToString(), "");
  }
}

TEST(LayoutRules, EverySeparatorOfTheAncestorIsAccepted) {
  for (const char* text :
       {"batch:data,heads:model", "batch:data;heads:model",
        "batch:data.heads:model", "batch:data heads:model",
        "batch:data\nheads:model\n", "\tbatch:data ;\r\n heads:model,"}) {
    const absl::StatusOr<LayoutRules> rules = LayoutRules::Parse(text, "test");
    ASSERT_OK(rules) << text;
    EXPECT_EQ(rules->ToString(), "batch:data, heads:model") << text;
  }
}

TEST(LayoutRules, ADimensionMayUseSeveralAxesMajorFirst) {
  const LayoutRules rules = *LayoutRules::Parse("batch:pod+data", "test");
  ASSERT_EQ(rules.rules().size(), 1u);
  EXPECT_EQ(rules.rules()[0].dimension, "batch");
  EXPECT_THAT(rules.rules()[0].axes, ElementsAre("pod", "data"));
  EXPECT_EQ(rules.rules()[0].ToString(), "batch:pod+data");
}

TEST(LayoutRules, ReplicatedIsARuleWithoutAxes) {
  const LayoutRules rules = *LayoutRules::Parse(
      "d_model:data [optimizer] d_model:replicated", "test");
  ASSERT_EQ(rules.rules().size(), 2u);
  EXPECT_THAT(rules.rules()[1].axes, ElementsAre());
  EXPECT_EQ(rules.ToString(), "d_model:data, [optimizer] d_model:replicated");
  for (const char* text : {"a:replicated+x", "a:x+replicated"}) {
    EXPECT_THAT(
        LayoutRules::Parse(text, "test"),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr("says that a dimension is replicated, and sharded")))
        << text;
  }
}

TEST(LayoutRules, FormerWordsAreErrorsThatNameTheNewOnes) {
  EXPECT_THAT(
      LayoutRules::Parse("batch:data, length:whole", "--layout"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "rule \"length:whole\" says \"whole\", which is now "
               "\"replicated\" (--layout, rule 2 of 2, characters 13-24)\n"
               "  rules    \"batch:data, length:whole\"\n"
               "  help     write \"length:replicated\""));
  EXPECT_THAT(LayoutRules::Parse("length:model+whole", "--layout"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("says \"whole\", which is now "
                                 "\"replicated\"")));
  EXPECT_THAT(
      LayoutRules::Parse("[parameters gathered_once]\nd_model:data",
                         "fsdp.layout"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "section \"[parameters gathered_once]\" says \"gathered_once\", "
               "which is now \"keep_gathered\" (fsdp.layout:1)\n"
               "  help     write [parameters keep_gathered]"));
}

TEST(LayoutRules, SectionsApplyToTheRulesAfterThem) {
  const LayoutRules rules = *LayoutRules::Parse(
      "batch:data  # activations\n"
      "[parameters]  # at rest\n"
      "d_model:data\n"
      "[optimizer]\n"
      "d_model:data, vocab:data\n"
      "[default]\n"
      "d_ff:model",
      "fsdp.layout");
  std::vector<RuleSection> sections;
  for (const LayoutRule& rule : rules.rules()) {
    sections.push_back(rule.section);
  }
  EXPECT_THAT(sections,
              ElementsAre(RuleSection::kDefault, RuleSection::kParameters,
                          RuleSection::kOptimizer, RuleSection::kOptimizer,
                          RuleSection::kDefault));
  EXPECT_EQ(rules.rules()[3].origin, "fsdp.layout:5");
  EXPECT_EQ(rules.ToString(),
            "batch:data, d_ff:model, [parameters] d_model:data, [optimizer] "
            "d_model:data, vocab:data");
}

TEST(LayoutRules, ParametersMayStayGathered) {
  for (const char* text :
       {"batch:data\n[parameters keep_gathered]\nd_model:data\n[parameters]\n"
        "vocab:data\n",
        "batch:data, [parameters,keep_gathered], d_model:data, [parameters], "
        "vocab:data"}) {
    const auto rules = LayoutRules::Parse(text, "--layout");
    ASSERT_OK(rules);
    ASSERT_EQ(rules->rules().size(), 3u);
    EXPECT_EQ(rules->rules()[1].section, RuleSection::kParameters);
    EXPECT_TRUE(rules->rules()[1].keep_gathered);
    EXPECT_EQ(rules->rules()[1].SectionName(), "parameters keep_gathered");
    EXPECT_EQ(rules->rules()[2].section, RuleSection::kParameters);
    EXPECT_FALSE(rules->rules()[2].keep_gathered);
    EXPECT_EQ(rules->ToString(),
              "batch:data, [parameters] vocab:data, [parameters keep_gathered] "
              "d_model:data");
    const auto again = LayoutRules::Parse(rules->ToString(), "--layout");
    ASSERT_OK(again);
    EXPECT_EQ(again->ToString(), rules->ToString());
  }
}

TEST(LayoutRules, SectionsOfScopes) {
  for (const char* text :
       {"length:x\n[in layer_*/attention,\n encoder]\nlength:replicated\n"
        "heads:x\n[parameters]\nd_model:x\n[in encoder]\nlength:y\n",
        "length:x; [in layer_*/attention; encoder] length:replicated; heads:x; "
        "[parameters] d_model:x; [in encoder] length:y"}) {
    const auto rules = LayoutRules::Parse(text, "--layout");
    ASSERT_OK(rules) << text;
    ASSERT_EQ(rules->rules().size(), 5u);
    const LayoutRule& rule = rules->rules()[1];
    EXPECT_EQ(rule.section, RuleSection::kScopes);
    EXPECT_THAT(rule.scopes, ElementsAre("layer_*/attention", "encoder"));
    EXPECT_EQ(rule.SectionName(), "in layer_*/attention, encoder");
    EXPECT_EQ(rule.TextWithSection(),
              "[in layer_*/attention, encoder] length:replicated");
    EXPECT_TRUE(rule.InSectionOf(rules->rules()[2]));
    EXPECT_FALSE(rule.InSectionOf(rules->rules()[4]));
    EXPECT_FALSE(rule.Rules(rules->rules()[4]));
    EXPECT_EQ(rules->ToString(),
              "length:x, [in layer_*/attention, encoder] length:replicated, "
              "heads:x, [in encoder] length:y, [parameters] d_model:x");
    const auto again = LayoutRules::Parse(rules->ToString(), "--layout");
    ASSERT_OK(again);
    EXPECT_EQ(again->ToString(), rules->ToString());
  }
}

TEST(LayoutRulesErrors, OfASectionOfScopes) {
  const auto error = [](absl::string_view text) {
    return LayoutRules::Parse(text, "--layout").status();
  };
  EXPECT_EQ(FirstLine(error("[in ] length:x")),
            "section \"[in ]\" names no scope (--layout, characters 1-5)");
  EXPECT_EQ(FirstLine(error("[in] length:x")),
            "section \"[in]\" names no scope (--layout, characters 1-4)");
  EXPECT_EQ(FirstLine(error("[in a] [in b] length:x")),
            "section \"[in a]\" has no rules (--layout, characters 1-6)");
  EXPECT_EQ(FirstLine(error("length:x [in a]")),
            "section \"[in a]\" has no rules (--layout, characters 10-15)");
  EXPECT_THAT(error("[in a length:x"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("write the \"]\" after the last scope")));
  EXPECT_OK(error("[in a,  # comment\n b]\nlength:x"));
  EXPECT_THAT(error("[in a//b] length:x"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has the pattern \"a//b\", which is not made "
                                 "of names of letters, digits")));
  EXPECT_THAT(error("[in a] length:x, length:y"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("rules the dimension \"length\" again in the "
                                 "section [in a]")));
  EXPECT_THAT(error("[inn a] length:x"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the sections are [default], [in SCOPES], "
                                 "[parameters], [optimizer]")));
}

TEST(LayoutRules, SectionsFitIntoOneLine) {
  const LayoutRules rules =
      *LayoutRules::Parse("batch:data; [parameters] d_model:data", "--layout");
  EXPECT_EQ(rules.rules()[1].section, RuleSection::kParameters);
  EXPECT_EQ(rules.rules()[1].origin, "--layout, rule 2 of 2, characters 26-37");
}

TEST(LayoutRules, PrintedRulesParseToTheSameText) {
  for (const std::string& name : LayoutRules::PresetNames()) {
    const std::string text = LayoutRules::Preset(name)->ToString();
    EXPECT_EQ(LayoutRules::Parse(text, "test")->ToString(), text);
  }
}

TEST(LayoutRules, OriginOfALineOfTextIsItsNumberAndCharacters) {
  const LayoutRules rules = *LayoutRules::Parse("a:x, bcd:yz; e:z", "--layout");
  EXPECT_EQ(rules.rules()[1].origin, "--layout, rule 2 of 3, characters 6-11");
  EXPECT_EQ(LayoutRules::Parse("a:x", "")->rules()[0].origin,
            "rule 1 of 1, characters 1-3");
}

struct BadRules {
  const char* name;
  const char* text;
  const char* first_line;
  const char* help;
};
std::ostream& operator<<(std::ostream& out, const BadRules& bad) {
  return out << bad.name;
}

class LayoutRulesErrors : public ::testing::TestWithParam<BadRules> {};

TEST_P(LayoutRulesErrors, NameTheRuleItsPositionAndAWayOut) {
  const BadRules& bad = GetParam();
  const absl::StatusOr<LayoutRules> rules =
      LayoutRules::Parse(bad.text, "--layout");
  EXPECT_EQ(rules.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FirstLine(rules.status()), bad.first_line);
  const std::string message(rules.status().message());
  EXPECT_THAT(message, HasSubstr(absl::StrCat("\n  help     ", bad.help)));
  const bool one_line = !absl::StrContains(bad.text, "\n");
  EXPECT_EQ(absl::StrContains(message, "\n  rules    \""), one_line);
}

TEST(LayoutRulesParse, ADimensionThatIsRuledTwiceShowsBothRules) {
  EXPECT_EQ(
      LayoutRules::Parse("batch:data, batch:model", "--layout")
          .status()
          .message(),
      "rule \"batch:model\" rules the dimension \"batch\" again in the section "
      "[default] (--layout, rule 2 of 2, characters 13-23)\n"
      "  first    batch:data   (--layout, rule 1 of 2, characters 1-10)\n"
      "  second   batch:model   (--layout, rule 2 of 2, characters 13-23)\n"
      "  rules    \"batch:data, batch:model\"\n"
      "  help     keep one of the two, or shard over the axes of both with "
      "\"batch:data+model\"");
  EXPECT_THAT(
      std::string(
          LayoutRules::Parse("[parameters] a:x [parameters keep_gathered] a:x",
                             "--layout")
              .status()
              .message()),
      HasSubstr("\n  second   [parameters keep_gathered] a:x   (--layout, "));
}

INSTANTIATE_TEST_SUITE_P(
    All, LayoutRulesErrors,
    ::testing::Values(
        BadRules{"NoColon", "batch:data, heads, d_ff:model",
                 "rule \"heads\" names no axis (--layout, rule 2 of 3, "
                 "characters 13-17)",
                 "write dimension:axis items, as in \"batch:data, "
                 "d_ff:model\"; several axes as \"batch:pod+data\""},
        BadRules{"TwoColons", "batch:data:4",
                 "rule \"batch:data:4\" has more than one \":\" (--layout, "
                 "rule 1 of 1, characters 1-12)",
                 "write dimension:axis"},
        BadRules{"NoDimension", ":data",
                 "rule \":data\" names no dimension (--layout, rule 1 of 1, "
                 "characters 1-5)",
                 "write dimension:axis"},
        BadRules{"BlankAfterColon", "batch: data",
                 "rule \"batch:\" names no axis (--layout, rule 1 of 2, "
                 "characters 1-6)",
                 "write dimension:axis items, as in \"batch:data, "
                 "d_ff:model\"; several axes as \"batch:pod+data\", without "
                 "blanks around \":\""},
        BadRules{"EmptyAxisInAList", "batch:pod+",
                 "rule \"batch:pod+\" has no axis on one side of a \"+\" "
                 "(--layout, rule 1 of 1, characters 1-10)",
                 "write dimension:axis"},
        BadRules{"HostileDimension", "b\xc3\xa4tch:data",
                 "rule \"b\\xc3\\xa4tch:data\" has a dimension name that is "
                 "not made of letters, digits, \"_\" and \"-\" (--layout, rule "
                 "1 of 1, characters 1-11)",
                 "write dimension:axis"},
        BadRules{"HostileAxis", "batch:da\x01ta",
                 "rule \"batch:da\\x01ta\" has an axis name that is not made "
                 "of letters, digits, \"_\" and \"-\" (--layout, rule 1 of 1, "
                 "characters 1-11)",
                 "write dimension:axis"},
        BadRules{"AxisTwice", "batch:data+data",
                 "rule \"batch:data+data\" names the axis \"data\" twice "
                 "(--layout, rule 1 of 1, characters 1-15)",
                 "an axis shards a dimension once"},
        BadRules{"NineAxes", "batch:a+b+c+d+e+f+g+h+i",
                 "rule \"batch:a+b+c+d+e+f+g+h+i\" has more axes than any "
                 "mesh: at most 8 (--layout, rule 1 of 1, characters 1-23)",
                 "write dimension:axis"},
        BadRules{"DimensionTwice", "batch:data, batch:model",
                 "rule \"batch:model\" rules the dimension \"batch\" again in "
                 "the section [default] (--layout, rule 2 of 2, characters "
                 "13-23)",
                 "keep one of the two, or shard over the axes of both with "
                 "\"batch:data+model\""},
        BadRules{"DimensionTwiceAlike", "batch:data, batch:data",
                 "rule \"batch:data\" rules the dimension \"batch\" again in "
                 "the section [default] (--layout, rule 2 of 2, characters "
                 "13-22)",
                 "keep one of the two"},
        BadRules{"DimensionReplicatedAndSharded",
                 "batch:replicated, batch:data",
                 "rule \"batch:data\" rules the dimension \"batch\" again in "
                 "the section [default] (--layout, rule 2 of 2, characters "
                 "19-28)",
                 "keep one of the two"},
        BadRules{"DimensionTwiceInASection",
                 "[parameters]\nd_model:data\n[optimizer]\nd_model:data\n"
                 "[parameters]\nd_model:x",
                 "rule \"d_model:x\" rules the dimension \"d_model\" again in "
                 "the section [parameters] (--layout:6)",
                 "keep one of the two, or shard over the axes of both with "
                 "\"d_model:data+x\""},
        BadRules{"MisspeltSection", "[paramters] d_model:data",
                 "section \"[paramters]\" is unknown (--layout, characters "
                 "1-11)",
                 "did you mean [parameters]? the sections are [default], "
                 "[in SCOPES], [parameters], [optimizer]"},
        BadRules{"UnknownSection", "batch:data\n[weights]\n",
                 "section \"[weights]\" is unknown (--layout:2)",
                 "the sections are [default], [in SCOPES], [parameters], "
                 "[optimizer]"},
        BadRules{"MisspeltWordOfASection",
                 "[parameters keep_gatherd] d_model:data",
                 "section \"[parameters keep_gatherd]\" is unknown (--layout, "
                 "characters 1-25)",
                 "did you mean [parameters keep_gathered]? the sections are "
                 "[default], [in SCOPES], [parameters], [optimizer], [budget], "
                 "[parameters keep_gathered]"},
        BadRules{"WordOfAnotherSection",
                 "batch:data\n[optimizer keep_gathered]\nd_model:data\n",
                 "section \"[optimizer keep_gathered]\" is unknown "
                 "(--layout:2)",
                 "the sections are [default], [in SCOPES], [parameters], "
                 "[optimizer]"},
        BadRules{"DimensionKeptGatheredAndNot",
                 "[parameters] a:x [parameters keep_gathered] a:x",
                 "rule \"a:x\" rules the dimension \"a\" again in the section "
                 "[parameters] (--layout, rule 2 of 2, characters 45-47)",
                 "keep one of the two"},
        BadRules{"OpenSection", "[parameters",
                 "section \"[parameters\" does not end with \"]\" (--layout, "
                 "characters 1-11)",
                 "the sections are [default]"},
        BadRules{"RuleAtItsSection", "[parameters gathered]hidden:data",
                 "section \"[parameters gathered]hidden:data\" continues after "
                 "its \"]\" (--layout, characters 1-32)",
                 "write \"[parameters gathered]\", a blank, and then"},
        BadRules{"RuleAtItsShortSection", "batch:x,[optimizer]hidden:data",
                 "section \"[optimizer]hidden:data\" continues after its "
                 "\"]\" (--layout, characters 9-30)",
                 "write \"[optimizer]\", a blank, and then"},
        BadRules{"NoAxisBeforeAPlus", "batch:+data",
                 "rule \"batch:+data\" has no axis on one side of a \"+\" "
                 "(--layout, rule 1 of 1, characters 1-11)",
                 "write dimension:axis"},
        BadRules{"OnlyABracket", "[",
                 "section \"[\" does not end with \"]\" (--layout, character "
                 "1)",
                 "the sections are [default]"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(LayoutRules, EveryShortByteStringParsesOrFailsCleanly) {
  const std::string bytes("a:+[]#, \n\xff\0", 11);
  for (char a : bytes) {
    for (char b : bytes) {
      for (char c : bytes) {
        for (char d : bytes) {
          const absl::StatusOr<LayoutRules> rules =
              LayoutRules::Parse(std::string{a, b, c, d}, "test");
          if (!rules.ok()) {
            EXPECT_EQ(rules.status().code(),
                      absl::StatusCode::kInvalidArgument);
          }
        }
      }
    }
  }
}

TEST(ReadFile, RulesComeFromTheirLines) {
  const std::string path = ::testing::TempDir() + "/fsdp.layout";
  std::ofstream(path) << "# comment\nbatch:data\n\n[parameters]\nd_model:data";
  const absl::StatusOr<LayoutRules> rules = LayoutRules::ReadFile(path);
  ASSERT_OK(rules);
  EXPECT_EQ(rules->ToString(), "batch:data, [parameters] d_model:data");
  EXPECT_EQ(rules->rules()[1].origin, path + ":5");
}

TEST(ReadFile, AnErrorNamesFileAndLine) {
  const std::string path = ::testing::TempDir() + "/bad.layout";
  std::ofstream(path) << "batch";
  EXPECT_THAT(
      LayoutRules::ReadFile(path),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("rule \"batch\" names no axis (" + path + ":1)")));
}

TEST(ReadFile, MissingFileIsNotFound) {
  EXPECT_THAT(
      LayoutRules::ReadFile("/no/such.layout"),
      StatusIs(absl::StatusCode::kNotFound,
               HasSubstr("cannot read layout file \"/no/such.layout\": No "
                         "such file or directory")));
}

TEST(ReadFile, RejectsFoldersAndDevices) {
  for (const char* path : {"/", "/dev/zero"}) {
    EXPECT_THAT(LayoutRules::ReadFile(path),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("not a regular file")));
  }
}

TEST(ReadFile, RejectsLargeFiles) {
  const std::string path = ::testing::TempDir() + "/huge.layout";
  std::ofstream(path) << std::string((1 << 20) + 1, ' ');
  EXPECT_THAT(LayoutRules::ReadFile(path),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the limit is 1048576")));
}

}  // namespace
}  // namespace mtf
