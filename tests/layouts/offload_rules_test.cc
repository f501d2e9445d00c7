// SPDX-License-Identifier: Apache-2.0
#include "layouts/offload_rules.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layouts/layout_rules.h"
#include "mtf/status.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::vector<OffloadVariable>& Variables() {
  static const auto& variables = *new std::vector<OffloadVariable>{
      {"layer_0/ffn/kernel", OffloadKind::kParameters},
      {"layer_1/ffn/kernel", OffloadKind::kParameters},
      {"embedding", OffloadKind::kParameters},
      {"embedding/m", OffloadKind::kOptimizer}};
  return variables;
}

LayoutRules Parsed(absl::string_view text) {
  const absl::StatusOr<LayoutRules> rules =
      LayoutRules::Parse(text, "--layout");
  EXPECT_OK(rules) << text;
  return rules.ok() ? *rules : LayoutRules();
}

absl::Status ErrorOf(absl::string_view text) {
  return LayoutRules::Parse(text, "--layout").status();
}

absl::Status Check(absl::string_view text, bool strict,
                   std::vector<std::string>& notices) {
  return Parsed(text).offload().CheckItems(Variables(), strict, notices);
}

TEST(OffloadRules, TheSectionHasWordsAndNames) {
  const LayoutRules rules = Parsed(
      "batch:data, [offload] optimizer, layer_*/ffn, [budget] no "
      "all_to_all");
  EXPECT_EQ(rules.rules().size(), 1);
  EXPECT_EQ(rules.budget().lines().size(), 1);
  const OffloadRules& offload = rules.offload();
  EXPECT_EQ(offload.items()[0].origin,
            "--layout, rule 2 of 3, characters 23-31");
  EXPECT_TRUE(offload.Selects(OffloadKind::kOptimizer, "embedding/m"));
  EXPECT_FALSE(offload.Selects(OffloadKind::kParameters, "embedding"));
  EXPECT_TRUE(offload.Selects(OffloadKind::kParameters, "layer_7/ffn/kernel"));
  EXPECT_EQ(rules.ToString(),
            "batch:data, [offload] optimizer, layer_*/ffn, [budget] no "
            "all_to_all");
  EXPECT_EQ(Parsed(rules.ToString()).ToString(), rules.ToString());
}

TEST(OffloadRules, RulesMayFollowAnotherSection) {
  const LayoutRules rules = Parsed("[offload],parameters,[optimizer],io:data");
  EXPECT_EQ(rules.offload().ToString(), "parameters");
  EXPECT_EQ(rules.rules()[0].section, RuleSection::kOptimizer);
}

TEST(OffloadRules, ErrorsNameTheItem) {
  EXPECT_EQ(ErrorOf("[offload] optimizer, optimizer").message(),
            "item \"optimizer\" is in [offload] twice (--layout, rule 2 of 2, "
            "characters 22-30)\n"
            "  first    --layout, rule 1 of 2, characters 11-19\n"
            "  second   --layout, rule 2 of 2, characters 22-30\n"
            "  help     keep one of the two");
  EXPECT_THAT(ErrorText(ErrorOf("[offload] batch:data")),
              AllOf(HasSubstr("item \"batch:data\" is a rule, but [offload] "
                              "names variables (--layout, rule 1 of 1, "
                              "characters 11-20)"),
                    HasSubstr("write the rule before [offload]")));
  EXPECT_THAT(ErrorText(ErrorOf("[offload] a//b")),
              HasSubstr("item \"a//b\" is not made of names"));
  EXPECT_THAT(ErrorText(ErrorOf("batch:data [offload]")),
              HasSubstr("section \"[offload]\" names no variables"));
  EXPECT_THAT(ErrorText(ErrorOf("[ofload] optimizer")),
              HasSubstr("did you mean [offload]?"));
}

TEST(OffloadRules, AnItemWithoutAVariableIsReported) {
  std::vector<std::string> notices;
  EXPECT_OK(Check("[offload] optimizer, embedding", true, notices));
  EXPECT_THAT(notices, IsEmpty());
  EXPECT_OK(Check("[offload] state", false, notices));
  EXPECT_THAT(notices,
              ElementsAre("item \"state\" of [offload] (--layout, rule 1 of 1, "
                          "characters 11-15) has no effect: the program has no "
                          "state besides that of optimizers"));
  EXPECT_THAT(Check("[offload] state", true, notices),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("remove the item, or allow items without "
                                 "effect by leaving out --strict_layout")));
}

TEST(OffloadRules, AMisspeltItemIsAnError) {
  std::vector<std::string> notices;
  EXPECT_THAT(Check("[offload] optimiser", false, notices),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("no variable has the name \"optimiser\"; did "
                                 "you mean \"optimizer\"?")));
  EXPECT_THAT(Check("[offload] layer_0/fnn", false, notices),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("did you mean \"layer_0/ffn\"?")));
  EXPECT_THAT(
      ErrorText(Check("[offload] layer_*/fnn", false, notices)),
      AllOf(HasSubstr("no variable matches \"layer_*/fnn\"; did you mean "
                      "\"layer_*/ffn\"?"),
            HasSubstr("\n  item     \"layer_*/fnn\" in [offload], --layout, "
                      "rule 1 of 1, characters 11-21"),
            HasSubstr("\n  help     write \"layer_*/ffn\", or remove")));
  EXPECT_THAT(Check("[offload] **/kernal", false, notices),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("did you mean \"**/kernel\"?")));
  EXPECT_THAT(Check("[offload] leyer_*/ffn", false, notices),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("did you mean \"layer_*/ffn\"?")));
  EXPECT_THAT(notices, IsEmpty());
  // Layers that a deeper model has.
  EXPECT_OK(Check("[offload] layer_9/ffn, layer_9*/ffn", false, notices));
  EXPECT_EQ(notices.size(), 2u);
}

// One section may serve a model with encoder and decoder, and one that has only
// one of them, though the names are close.
TEST(OffloadRules, ANameWithItsOwnItemIsNotTakenForAMisspelling) {
  std::vector<std::string> notices;
  EXPECT_OK(Check("[offload] layer_*/ffn, layer_*/fnn, embedding, embeddin",
                  false, notices));
  EXPECT_THAT(notices, ElementsAre(HasSubstr("\"layer_*/fnn\" of [offload]"),
                                   HasSubstr("\"embeddin\" of [offload]")));
  // A word selects by kind, not by name.
  EXPECT_THAT(Check("[offload] parameters, layer_*/fnn", false, notices),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ffn")));
}

TEST(OffloadRules, APatternThatMatchesNothingHasASuggestion) {
  std::vector<std::string> notices;
  EXPECT_OK(
      Check("[offload] *x, layer_*/mixer, ffn, layer_9/ffn", false, notices));
  EXPECT_THAT(
      notices,
      ElementsAre(
          AllOf(HasSubstr("no variable that it matches"),
                Not(HasSubstr("did you mean"))),
          AllOf(HasSubstr("no variable that it matches"),
                Not(HasSubstr("did you mean"))),
          HasSubstr("no variable of that name; did you mean \"**/ffn\"?"),
          AllOf(HasSubstr("no variable of that name"),
                Not(HasSubstr("did you mean")))));
}

TEST(OffloadRules, TheSectionMayFollowAPreset) {
  const LayoutRules rules = Parsed("megatron, [offload] optimizer");
  EXPECT_EQ(rules.ToString(),
            absl::StrCat(LayoutRules::Preset("megatron")->ToString(),
                         ", [offload] optimizer"));
  EXPECT_EQ(rules.offload().items()[0].origin,
            "--layout, rule 1 of 1, characters 21-29");
  EXPECT_EQ(Parsed("zero3\n[offload]\noptimizer").rules().size(),
            LayoutRules::Preset("zero3")->rules().size());
}

TEST(OffloadRules, ErrorsQuoteThePreset) {
  EXPECT_THAT(
      ErrorText(ErrorOf("megatron [offload] optimizer [optimizer] d_ff:data")),
      AllOf(HasSubstr("section \"[optimizer]\" follows preset \"megatron\", "
                      "which is a complete layout (--layout, characters "
                      "30-40)"),
            HasSubstr("\n  rules    \"megatron [offload] optimizer [optimizer] "
                      "d_ff:data\"")));
  EXPECT_THAT(ErrorText(ErrorOf("megatron,[offload]")),
              AllOf(HasSubstr("section \"[offload]\" names no variables"),
                    HasSubstr("\"megatron,[offload]\"")));
  EXPECT_THAT(ErrorText(ErrorOf("megatorn,[offload],optimizer")),
              HasSubstr("did you mean \"megatron\"?"));
}

}  // namespace
}  // namespace mtf
