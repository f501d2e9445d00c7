// SPDX-License-Identifier: Apache-2.0
#include "layouts/budget.h"

#include <fstream>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "layouts/layout_rules.h"
#include "tests/layouts/first_line.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

using ::mtf::testing::FirstLine;
using ::mtf::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<Budget> ParseBudget(absl::string_view text) {
  Budget budget;
  const absl::Status status = budget.Add(text, {.origin = "f.layout"});
  if (!status.ok()) return status;
  return budget;
}

BudgetLine ParseLine(absl::string_view text) {
  const absl::StatusOr<Budget> budget = ParseBudget(text);
  EXPECT_OK(budget) << text;
  if (!budget.ok() || budget->lines().size() != 1) return {};
  return budget->lines()[0];
}

TEST(Budget, NoCollectiveOfAKind) {
  const BudgetLine line = ParseLine("no all_gather of parameters in layer_*");
  EXPECT_EQ(line.subject, BudgetSubject::kCalls);
  EXPECT_EQ(line.kind, CollectiveKind::kAllGather);
  EXPECT_EQ(line.tensors, BudgetTensors::kParameters);
  EXPECT_TRUE(line.axes.empty());
  EXPECT_EQ(line.scope, "layer_*");
  EXPECT_EQ(line.origin, "f.layout:1");
}

TEST(Budget, EveryKindHasItsName) {
  EXPECT_EQ(ParseLine("no collective").kind, std::nullopt);
  EXPECT_EQ(ParseLine("no all_reduce").kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(ParseLine("no all_gather").kind, CollectiveKind::kAllGather);
  EXPECT_EQ(ParseLine("no reduce_scatter").kind,
            CollectiveKind::kReduceScatter);
  EXPECT_EQ(ParseLine("no all_to_all").kind, CollectiveKind::kAllToAll);
  EXPECT_EQ(ParseLine("no collective_permute").kind,
            CollectiveKind::kCollectivePermute);
}

TEST(Budget, NothingIsNoCollectiveOfAnyKind) {
  const BudgetLine line = ParseLine("nothing over model in layer_*/attention");
  EXPECT_EQ(line.subject, BudgetSubject::kCalls);
  EXPECT_EQ(line.kind, std::nullopt);
  EXPECT_THAT(line.axes, ElementsAre("model"));
  EXPECT_EQ(line.scope, "layer_*/attention");
}

TEST(Budget, BytesSent) {
  const BudgetLine line =
      ParseLine("at most 64 MiB of all_reduce of optimizer over pod+data in a");
  EXPECT_EQ(line.subject, BudgetSubject::kBytes);
  EXPECT_EQ(line.most_bytes, 64 << 20);
  EXPECT_EQ(line.kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(line.tensors, BudgetTensors::kOptimizer);
  EXPECT_THAT(line.axes, ElementsAre("pod", "data"));
  EXPECT_EQ(line.scope, "a");
  EXPECT_EQ(ParseLine("at most 5 B").most_bytes, 5);
}

TEST(Budget, BytesOfMemory) {
  const BudgetLine line = ParseLine("memory at most 80 GiB");
  EXPECT_EQ(line.subject, BudgetSubject::kMemory);
  EXPECT_EQ(line.most_bytes, int64_t{80} << 30);
}

TEST(Budget, UnitsOf1024AndOf1000) {
  const auto bytes = [](const char* size) {
    return ParseLine(absl::StrCat("memory at most ", size)).most_bytes;
  };
  EXPECT_EQ(bytes("0 B"), 0);
  EXPECT_EQ(bytes("3 B"), 3);
  EXPECT_EQ(bytes("3 KiB"), 3 << 10);
  EXPECT_EQ(bytes("3 MiB"), 3 << 20);
  EXPECT_EQ(bytes("3 GiB"), int64_t{3} << 30);
  EXPECT_EQ(bytes("3 TiB"), int64_t{3} << 40);
  EXPECT_EQ(bytes("3 KB"), 3000);
  EXPECT_EQ(bytes("3 MB"), 3000000);
  EXPECT_EQ(bytes("3 GB"), 3000000000);
  EXPECT_EQ(bytes("3 TB"), 3000000000000);
  EXPECT_EQ(bytes("1.5 KiB"), 1536);
  EXPECT_EQ(bytes("80GiB"), int64_t{80} << 30);
  EXPECT_EQ(bytes("0.9 B"), 0);  // no part of a byte is sent
}

TEST(Budget, ClausesComeInAnyOrder) {
  const BudgetLine line =
      ParseLine("nothing in layer_0 over model of parameters");
  EXPECT_THAT(line.axes, ElementsAre("model"));
  EXPECT_EQ(line.scope, "layer_0");
  EXPECT_EQ(line.tensors, BudgetTensors::kParameters);
}

TEST(Budget, LinesEndAtLineEndsCommasAndSemicolons) {
  const absl::StatusOr<Budget> budget = ParseBudget(
      "\n  no   all_gather\t# of anything, at all\n\n"
      "at most 1.5 MiB over data; memory at most 80 GiB,\n");
  ASSERT_OK(budget);
  EXPECT_EQ(budget->ToString(),
            "no all_gather, at most 1.5 MiB over data, memory at most 80 GiB");
  EXPECT_EQ(budget->lines()[0].origin, "f.layout:2");
  EXPECT_EQ(budget->lines()[1].origin, "f.layout:4");
  EXPECT_EQ(budget->lines()[2].origin, "f.layout:4");
}

TEST(Budget, IsASectionOfALayout) {
  const absl::StatusOr<LayoutRules> rules = LayoutRules::Parse(
      "batch:data\n"
      "[budget]  # what it may cost\n"
      "nothing over model\n"
      "at most 0.5 GiB over data\n"
      "[parameters]\n"
      "d_model:data\n"
      "[budget]\n"
      "memory at most 80 GiB\n",
      "fsdp.layout");
  ASSERT_OK(rules);
  ASSERT_EQ(rules->rules().size(), 2u);
  EXPECT_EQ(rules->rules()[1].section, RuleSection::kParameters);
  ASSERT_EQ(rules->budget().lines().size(), 3u);
  EXPECT_EQ(rules->budget().lines()[0].origin, "fsdp.layout:3");
  EXPECT_EQ(rules->budget().lines()[1].origin, "fsdp.layout:4");
  EXPECT_EQ(rules->budget().lines()[2].origin, "fsdp.layout:8");
  EXPECT_EQ(rules->ToString(),
            "batch:data, [parameters] d_model:data, [budget] nothing over "
            "model, at most 0.5 GiB over data, memory at most 80 GiB");
}

TEST(Budget, PrintedLayoutsReadBack) {
  for (const char* text :
       {"[budget] nothing", "batch:data, [budget] memory at most 1.25 TiB",
        "[budget] no all_gather of parameters in */attention, at most 3 KB of "
        "all_to_all over a+b",
        "b:x, [optimizer] b:y, [budget] at most 0 B of optimizer"}) {
    const absl::StatusOr<LayoutRules> rules = LayoutRules::Parse(text, "test");
    ASSERT_OK(rules) << text;
    EXPECT_EQ(rules->ToString(), text);
  }
}

TEST(Budget, FitsIntoOneLine) {
  const absl::StatusOr<LayoutRules> rules = LayoutRules::Parse(
      "batch:data; [budget] nothing over model; memory at most 8 GiB "
      "[parameters] d_model:data",
      "--layout");
  ASSERT_OK(rules);
  ASSERT_EQ(rules->budget().lines().size(), 2u);
  EXPECT_EQ(rules->budget().lines()[0].origin, "--layout, characters 22-39");
  EXPECT_EQ(rules->budget().lines()[1].origin, "--layout, characters 42-61");
  // Its lines are not rules.
  EXPECT_EQ(rules->rules()[1].origin,
            "--layout, rule 2 of 2, characters 76-87");
}

TEST(Budget, EmptySectionsAllowEverything) {
  for (const char* text : {"[budget]", "[budget]\n# nothing over model\n",
                           "a:b [budget] , ; [optimizer] a:c"}) {
    const absl::StatusOr<LayoutRules> rules = LayoutRules::Parse(text, "test");
    ASSERT_OK(rules) << text;
    EXPECT_TRUE(rules->budget().empty()) << text;
  }
}

TEST(Budget, ALayoutFileNamesItsLine) {
  const std::string path = ::testing::TempDir() + "/budget.layout";
  std::ofstream(path) << "batch:data\n\n[budget]\n\nno all_gater\n";
  EXPECT_THAT(LayoutRules::ReadFile(path),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("(" + path + ":5)")));
}

struct WrongBudget {
  const char* name;
  const char* text;
  const char* first_line;
};
std::ostream& operator<<(std::ostream& out, const WrongBudget& wrong) {
  return out << wrong.name;
}

class WrongBudgetFiles : public ::testing::TestWithParam<WrongBudget> {};

TEST_P(WrongBudgetFiles, NameTheWordThePositionAndTheGrammar) {
  const WrongBudget& wrong = GetParam();
  const std::string path =
      absl::StrCat(::testing::TempDir(), "/wrong_", wrong.name, ".layout");
  std::ofstream(path) << "batch:data\n[budget]\n" << wrong.text << "\n";
  const absl::Status status = LayoutRules::ReadFile(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FirstLine(status),
            absl::StrReplaceAll(wrong.first_line, {{"f.layout", path}}));
  EXPECT_THAT(std::string(status.message()), HasSubstr("\n  help     "));
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongBudgetFiles,
    ::testing::Values(
        WrongBudget{"Start", "noting over model",
                    "budget line \"noting over model\" has the word \"noting\" "
                    "where \"no\", \"nothing\", \"at\" or \"memory\" should "
                    "be; did you mean \"nothing\"? (f.layout:3)"},
        WrongBudget{"ARule", "batch:data",
                    "budget line \"batch:data\" has the word \"batch:data\" "
                    "where \"no\", \"nothing\", \"at\" or \"memory\" should "
                    "be (f.layout:3)"},
        WrongBudget{"Kind", "no all_gater in layer_*",
                    "budget line \"no all_gater in layer_*\" has the word "
                    "\"all_gater\" where \"collective\", \"all_reduce\", "
                    "\"all_gather\", \"reduce_scatter\", \"all_to_all\" or "
                    "\"collective_permute\" should be; did you mean "
                    "\"all_gather\"? (f.layout:3)"},
        WrongBudget{"NoKind", "no",
                    "budget line \"no\" ends where \"collective\", "
                    "\"all_reduce\", \"all_gather\", \"reduce_scatter\", "
                    "\"all_to_all\" or \"collective_permute\" should follow "
                    "(f.layout:3)"},
        WrongBudget{"Tensors", "no all_gather of paramters",
                    "budget line \"no all_gather of paramters\" has the word "
                    "\"paramters\" where \"parameters\" or \"optimizer\" "
                    "should be; did you mean \"parameters\"? (f.layout:3)"},
        WrongBudget{"TensorsTwice", "nothing of parameters of optimizer",
                    "budget line \"nothing of parameters of optimizer\" has "
                    "too many clauses with \"of\" (f.layout:3)"},
        WrongBudget{"KindOrTensors", "at most 1 B of gradients",
                    "budget line \"at most 1 B of gradients\" has the word "
                    "\"gradients\" where \"collective\", \"all_reduce\", "
                    "\"all_gather\", \"reduce_scatter\", \"all_to_all\", "
                    "\"collective_permute\", \"parameters\" or \"optimizer\" "
                    "should be (f.layout:3)"},
        WrongBudget{"Most", "at msot 64 MiB over data",
                    "budget line \"at msot 64 MiB over data\" has the word "
                    "\"msot\" where \"most\" should be; did you mean "
                    "\"most\"? (f.layout:3)"},
        WrongBudget{"MemoryWithoutAt", "memory 80 GiB",
                    "budget line \"memory 80 GiB\" has the word \"80\" where "
                    "\"at\" should be (f.layout:3)"},
        WrongBudget{"NoSize", "memory at most",
                    "budget line \"memory at most\" ends where a size should "
                    "follow (f.layout:3)"},
        WrongBudget{"SizeInWords", "at most many MiB",
                    "budget line \"at most many MiB\" has \"many\" where a "
                    "size should be, as in \"64 MiB\" (f.layout:3)"},
        WrongBudget{"NegativeSize", "at most -1 MiB",
                    "budget line \"at most -1 MiB\" has \"-1\" where a size "
                    "should be, as in \"64 MiB\" (f.layout:3)"},
        WrongBudget{"TwoPoints", "at most 1.2.3 MiB",
                    "budget line \"at most 1.2.3 MiB\" has \"1.2.3\" where a "
                    "size should be, as in \"64 MiB\" (f.layout:3)"},
        WrongBudget{"NoUnit", "memory at most 80",
                    "budget line \"memory at most 80\" ends where \"B\", "
                    "\"KiB\", \"MiB\", \"GiB\", \"TiB\", \"KB\", \"MB\", "
                    "\"GB\" or \"TB\" should follow (f.layout:3)"},
        WrongBudget{"UnitInOtherLetters", "memory at most 80 gib",
                    "budget line \"memory at most 80 gib\" has the word "
                    "\"gib\" where \"B\", \"KiB\", \"MiB\", \"GiB\", \"TiB\", "
                    "\"KB\", \"MB\", \"GB\" or \"TB\" should be; did you mean "
                    "\"GiB\"? (f.layout:3)"},
        WrongBudget{"MoreThanAllMemory", "memory at most 99999999999 TiB",
                    "budget line \"memory at most 99999999999 TiB\" allows "
                    "more bytes than any machine has (f.layout:3)"},
        WrongBudget{"MemoryOverAnAxis", "memory at most 8 GiB over data",
                    "budget line \"memory at most 8 GiB over data\" has "
                    "\"over\" after the size: memory is limited for a rank as "
                    "a whole (f.layout:3)"},
        WrongBudget{"Clause", "nothing ovr model",
                    "budget line \"nothing ovr model\" has the word \"ovr\" "
                    "where \"of\", \"over\" or \"in\" should be; did you mean "
                    "\"over\"? (f.layout:3)"},
        WrongBudget{"ClauseTwice", "nothing over a over b",
                    "budget line \"nothing over a over b\" has the word "
                    "\"over\" twice (f.layout:3)"},
        WrongBudget{"NoAxis", "nothing over",
                    "budget line \"nothing over\" ends where mesh axes should "
                    "follow (f.layout:3)"},
        WrongBudget{"EmptyAxis", "nothing over pod+",
                    "budget line \"nothing over pod+\" has \"pod+\" where mesh "
                    "axes should be, as in \"data\" or \"pod+data\" "
                    "(f.layout:3)"},
        WrongBudget{"AxisTwice", "nothing over a+a",
                    "budget line \"nothing over a+a\" names the axis \"a\" "
                    "twice (f.layout:3)"},
        WrongBudget{"NoScope", "nothing over model in",
                    "budget line \"nothing over model in\" ends where names "
                    "of operations should follow (f.layout:3)"},
        WrongBudget{"EmptyComponent", "nothing in layer_0//ffn",
                    "budget line \"nothing in layer_0//ffn\" has "
                    "\"layer_0//ffn\" where names of operations should be, as "
                    "in \"layer_*/attention\" (f.layout:3)"},
        WrongBudget{"SameLimitTwice",
                    "memory at most 80 GiB\nmemory at most 40 GiB",
                    "budget line \"memory at most 40 GiB\" limits the same as "
                    "\"memory at most 80 GiB\" (f.layout:4)"},
        WrongBudget{"MisspeltSection", "[budgte]\nnothing",
                    "section \"[budgte]\" is unknown (f.layout:3)"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Budget, EveryShortTextParsesOrFailsCleanly) {
  const std::string words[] = {"no",         "nothing", "at", "most", "memory",
                               "8",          "MiB",     "of", "over", "in",
                               "all_reduce", "*/",      ",",  "[",    "\xff"};
  for (const std::string& a : words) {
    for (const std::string& b : words) {
      for (const std::string& c : words) {
        for (const std::string& d : words) {
          const absl::StatusOr<LayoutRules> rules = LayoutRules::Parse(
              absl::StrCat("[budget] ", a, " ", b, " ", c, " ", d), "test");
          if (!rules.ok()) {
            EXPECT_EQ(rules.status().code(),
                      absl::StatusCode::kInvalidArgument);
            continue;
          }
          EXPECT_EQ(LayoutRules::Parse(rules->ToString(), "")->ToString(),
                    rules->ToString());
        }
      }
    }
  }
}

}  // namespace
}  // namespace mtf
