// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "layouts/layout_rules.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using enum RuleSection;

absl::StatusOr<ResolvedRules> Resolve(
    absl::string_view rules, absl::string_view mesh,
    const std::vector<std::string>& dimensions, bool strict = false) {
  return ResolvedRules::Resolve(*LayoutRules::Parse(rules, "--layout"),
                                *Mesh::Parse(mesh), dimensions, strict);
}

TEST(ResolvedRules, ADimensionGetsItsAxesInTheOrderOfTheRule) {
  const ResolvedRules rules =
      *Resolve("batch:data+pod, d_ff:model", "pod:2,data:3,model:2",
               {"batch", "d_ff", "d_model"});
  EXPECT_EQ(rules.AxesOf(kDefault, "batch"), (AxisList{1, 0}));
  EXPECT_EQ(rules.AxesOf(kDefault, "d_ff"), AxisList{2});
  EXPECT_TRUE(rules.AxesOf(kDefault, "d_model").empty());
  EXPECT_TRUE(rules.AxesOf(kDefault, "unknown").empty());
  EXPECT_EQ(rules.RuleOf(kDefault, "batch")->ToString(), "batch:data+pod");
  EXPECT_EQ(rules.RuleOf(kDefault, "d_model"), nullptr);
  EXPECT_THAT(rules.notices(), IsEmpty());
}

TEST(ResolvedRules, SectionsFallBackToTheDefaultDimensionByDimension) {
  const ResolvedRules rules = *Resolve(
      "d_ff:model, [parameters] d_model:data, [optimizer] "
      "d_ff:model+data",
      "data:2,model:2", {"d_ff", "d_model"});
  EXPECT_EQ(rules.AxesOf(kParameters, "d_ff"), AxisList{1});
  EXPECT_EQ(rules.AxesOf(kParameters, "d_model"), AxisList{0});
  EXPECT_EQ(rules.AxesOf(kOptimizer, "d_ff"), (AxisList{1, 0}));
  EXPECT_TRUE(rules.AxesOf(kOptimizer, "d_model").empty());
  EXPECT_TRUE(rules.AxesOf(kDefault, "d_model").empty());
  EXPECT_EQ(rules.RuleOf(kParameters, "d_ff")->section, kDefault);
  EXPECT_EQ(rules.RuleOf(kOptimizer, "d_ff")->section, kOptimizer);
  EXPECT_EQ(rules.AllAxesOf("d_ff"), AxisSet{3});
  EXPECT_EQ(rules.AllAxesOf("d_model"), AxisSet{1});
  EXPECT_EQ(rules.AllAxesOf("unknown"), AxisSet{0});
}

TEST(ResolvedRules, ReplicatedDimensionHasARuleWithoutAxes) {
  const ResolvedRules rules =
      *Resolve("d_ff:model, d_model:replicated, [optimizer] d_ff:replicated",
               "model:2", {"d_ff", "d_model", "vocab"}, /*strict=*/true);
  EXPECT_TRUE(rules.AxesOf(kOptimizer, "d_ff").empty());
  EXPECT_EQ(rules.AxesOf(kParameters, "d_ff"), AxisList{0});
  EXPECT_EQ(rules.RuleOf(kOptimizer, "d_ff")->ToString(), "d_ff:replicated");
  EXPECT_TRUE(rules.AxesOf(kDefault, "d_model").empty());
}

TEST(ResolvedRules, ReplicatedDimensionThatDoesNotExistIsReported) {
  EXPECT_THAT(Resolve("d_f:replicated", "model:2", {"batch"})->notices(),
              ElementsAre(HasSubstr("no tensor has a dimension \"d_f\"")));
}

// Rules for the scopes of a small model.
absl::StatusOr<ResolvedRules> ResolveInScopes(absl::string_view rules,
                                              bool strict = false) {
  const std::vector<ScopeDimensions> scopes = {
      {"", {"batch"}},
      {"layer_0/attention", {"length", "heads"}},
      {"layer_0/norm", {"length"}},
      {"layer_1/attention", {"length", "heads"}}};
  return ResolvedRules::Resolve(
      *LayoutRules::Parse(rules, "--layout"), *Mesh::Parse("x:2,y:2"),
      {"batch", "length", "heads"}, strict, nullptr, scopes);
}

TEST(ResolvedRules, TheLastSectionThatMatchesAScopeWins) {
  const ResolvedRules rules = *ResolveInScopes(
      "length:x, [in layer_*] length:y, heads:x, [in layer_*/attention] "
      "length:replicated, [in layer_1] heads:y");
  EXPECT_THAT(rules.notices(), IsEmpty());
  EXPECT_EQ(rules.ModuleOf(0), 0);
  const auto axes = [&](int scope, const char* dimension) {
    return rules.AxesOf(kDefault, dimension, rules.ModuleOf(scope));
  };
  EXPECT_EQ(axes(0, "length"), AxisList{0});
  EXPECT_EQ(axes(1, "length"), AxisList{});
  EXPECT_EQ(axes(1, "heads"), AxisList{0});
  EXPECT_EQ(axes(2, "length"), AxisList{1});
  EXPECT_EQ(axes(3, "length"), AxisList{});
  EXPECT_EQ(axes(3, "heads"), AxisList{1});
  EXPECT_EQ(
      rules.RuleOf(kDefault, "heads", rules.ModuleOf(3))->TextWithSection(),
      "[in layer_1] heads:y");
  EXPECT_EQ(rules.num_modules(), 4);
  EXPECT_EQ(rules.AllAxesOf("heads"), AxisSet{3});
  EXPECT_EQ(rules.AllAxesOf("length"), AxisSet{3});
}

TEST(ResolvedRules, ParametersFollowTheirScopeUnlessTheirSectionHasARule) {
  const ResolvedRules rules = *ResolveInScopes(
      "heads:x, [in **/attention] heads:y, [optimizer] heads:x+y");
  const int module = rules.ModuleOf(1);
  EXPECT_EQ(rules.AxesOf(kParameters, "heads", module), AxisList{1});
  EXPECT_EQ(rules.AxesOf(kParameters, "heads"), AxisList{0});
  EXPECT_EQ(rules.AxesOf(kOptimizer, "heads", module), (AxisList{0, 1}));
}

TEST(ResolvedRules, RulesForScopesWithoutEffectAreReported) {
  const auto notices = [](absl::string_view rules) {
    return ResolveInScopes(rules)->notices();
  };
  EXPECT_THAT(notices("[in layr_*/atention] heads:x"),
              ElementsAre("section [in layr_*/atention] (--layout, rule 1 of "
                          "1, characters 22-28): no scope matches "
                          "\"layr_*/atention\"; the nearest scope is "
                          "\"layer_0/attention\"",
                          HasSubstr("no tensor in [in layr_*/atention] has a "
                                    "dimension \"heads\"")));
  EXPECT_THAT(notices("[in layer_0, encoder] heads:x, length:y"),
              ElementsAre(HasSubstr("no scope matches \"encoder\"")));
  // A pattern for any model.
  EXPECT_THAT(notices("[in layer_0, **/encoder] heads:x"), IsEmpty());
  EXPECT_THAT(notices("[in **/norm] heads:x"),
              ElementsAre(HasSubstr("rule \"heads:x\" (--layout, rule 1 of 1, "
                                    "characters 14-20) has no effect: no "
                                    "tensor in [in **/norm] has a dimension "
                                    "\"heads\"")));
  EXPECT_THAT(ResolveInScopes("[in **/encoder] heads:x", /*strict=*/true),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("no scope matches \"**/encoder\"")));
}

TEST(ResolvedRules, AxesOfSizeOneAreDroppedWithoutNotice) {
  const ResolvedRules rules =
      *Resolve("batch:pod+data, d_ff:model", "pod:1,data:4,model:1",
               {"batch", "d_ff"}, /*strict=*/true);
  EXPECT_EQ(rules.AxesOf(kDefault, "batch"), AxisList{1});
  EXPECT_TRUE(rules.AxesOf(kDefault, "d_ff").empty());
  EXPECT_NE(rules.RuleOf(kDefault, "d_ff"), nullptr);
  EXPECT_THAT(rules.notices(), IsEmpty());
}

TEST(ResolvedRules, RuleForAnAbsentDimensionIsReported) {
  const ResolvedRules rules =
      *Resolve("batch:data, experts:data", "data:2", {"batch"});
  EXPECT_THAT(rules.notices(),
              ElementsAre("rule \"experts:data\" (--layout, rule 2 of 2, "
                          "characters 13-24) has no effect: no tensor has a "
                          "dimension \"experts\""));
  EXPECT_EQ(rules.RuleOf(kDefault, "experts"), nullptr);
}

TEST(ResolvedRules, RuleForAnAbsentAxisIsReported) {
  const ResolvedRules rules =
      *Resolve("batch:data, d_ff:model", "data:2", {"batch", "d_ff"});
  EXPECT_THAT(rules.notices(),
              ElementsAre("rule \"d_ff:model\" (--layout, rule 2 of 2, "
                          "characters 13-22) has no effect: mesh \"data:2\" "
                          "has no axis \"model\""));
}

TEST(ResolvedRules, OneAbsentAxisOfSeveralLeavesTheOthers) {
  const ResolvedRules rules =
      *Resolve("batch:pod+data", "data:2,model:2", {"batch"});
  EXPECT_EQ(rules.AxesOf(kDefault, "batch"), AxisList{0});
  EXPECT_THAT(rules.notices(),
              ElementsAre("axis \"pod\" of rule \"batch:pod+data\" (--layout, "
                          "rule 1 of 1, characters 1-14) has no effect: mesh "
                          "\"data:2,model:2\" lacks it"));
}

TEST(ResolvedRules, RuleWithoutEffectLeavesItsDimensionToTheDefault) {
  const ResolvedRules rules =
      *Resolve("d_ff:model, [parameters] d_ff:data", "model:2", {"d_ff"});
  EXPECT_EQ(rules.AxesOf(kParameters, "d_ff"), AxisList{0});
  EXPECT_EQ(rules.notices().size(), 1u);
}

TEST(ResolvedRules, AMisspeltAxisIsAnErrorWithTheNearestName) {
  EXPECT_THAT(
      Resolve("batch:dtaa", "data:2,model:2", {"batch"}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "mesh \"data:2,model:2\" has no axis \"dtaa\"; did you mean "
               "\"data\"?\n"
               "  rule     \"batch:dtaa\" in [default], --layout, rule 1 of 1, "
               "characters 1-10\n"
               "  mesh     \"data:2,model:2\"\n"
               "  help     write \"data\", or remove the rule if another name "
               "is meant"));
}

TEST(ResolvedRules, AMisspeltAxisIsAnErrorThoughOtherRulesSpellItRight) {
  EXPECT_THAT(Resolve("heads:model, d_ff:modle", "model:2", {"heads", "d_ff"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("did you mean \"model\"?")));
}

TEST(ResolvedRules, AMisspeltAxisIsAnErrorThoughItsDimensionIsAbsent) {
  EXPECT_THAT(Resolve("experts:modle", "model:2", {"batch"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("did you mean \"model\"?")));
}

TEST(ResolvedRules, AMisspeltDimensionIsAnErrorWithTheNearestName) {
  EXPECT_THAT(
      Resolve("bacth:data", "data:2", {"d_model", "batch"}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "no tensor has a dimension \"bacth\"; did you mean \"batch\"?\n"
               "  rule     \"bacth:data\" in [default], --layout, rule 1 of 1, "
               "characters 1-10\n"
               "  mesh     \"data:2\"\n"
               "  help     write \"batch\", or remove the rule if another name "
               "is meant"));
}

TEST(ResolvedRules, ANearNameWithItsOwnRuleIsNoMisspelling) {
  const absl::StatusOr<ResolvedRules> rules =
      Resolve("batch:data, patch:data", "data:2", {"batch"});
  ASSERT_OK(rules);
  EXPECT_EQ(rules->notices().size(), 1u);
}

TEST(ResolvedRules, ANearNameRuledInAnotherSectionIsStillAMisspelling) {
  EXPECT_THAT(
      Resolve("d_model:data, [parameters] d_modl:data", "data:2", {"d_model"}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("in [parameters]")));
}

TEST(ResolvedRules, AnExactNameIsNeverAMisspelling) {
  const absl::StatusOr<ResolvedRules> rules =
      Resolve("patch:dat", "dat:2,data:2", {"batch", "patch"}, true);
  ASSERT_OK(rules);
  EXPECT_EQ(rules->AxesOf(kDefault, "patch"), AxisList{0});
}

TEST(ResolvedRules, ShortAndNumberedNamesAreNotMisspellings) {
  const absl::StatusOr<ResolvedRules> rules =
      Resolve("d_ff:model, rows2:z, h:b2", "model:2,x:2,y:2,b1:2",
              {"d_kv", "rows1", "w"});
  ASSERT_OK(rules);
  EXPECT_EQ(rules->notices().size(), 3u);
}

TEST(ResolvedRules, StrictMakesARuleWithoutEffectAnError) {
  EXPECT_THAT(Resolve("batch:data, experts:data", "data:2", {"batch"}, true),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "rule \"experts:data\" (--layout, rule 2 of 2, "
                       "characters 13-24) has no effect: no tensor has a "
                       "dimension \"experts\"\n"
                       "  mesh     \"data:2\"\n"
                       "  help     remove the rule, or allow rules without "
                       "effect by leaving out --strict_layout"));
  EXPECT_THAT(Resolve("batch:pod+data", "data:2", {"batch"}, true),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("axis \"pod\" of rule \"batch:pod+data\"")));
}

}  // namespace
}  // namespace mtf
