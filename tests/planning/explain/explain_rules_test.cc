// SPDX-License-Identifier: Apache-2.0
//
// Rules in explanations: which of them take effect, what each saves, and which
// rule change removes a collective.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ops/elementwise.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/planning/explain/explain_test.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

TEST(Explain, NamesTheCheapestChangeWithItsCost) {
  const TwoLayers net;
  const auto e = ExplainTextLayout(net.graph, "rows:2,cols:2",
                                   "batch:rows, hidden:cols", net.targets());
  ASSERT_OK(e);
  ASSERT_EQ(e->collectives.size(), 1u);
  const ExplainedCollective& sum = e->collectives[0];
  EXPECT_EQ(sum.kind, "all_reduce");
  EXPECT_EQ(sum.axes, "cols");
  EXPECT_EQ(sum.operation, "einsum_1");
  EXPECT_EQ(sum.rule, "hidden:cols");
  EXPECT_EQ(sum.rule_origin, "--layout, rule 2 of 2, characters 13-23");
  EXPECT_EQ(sum.site, absl::StrCat("explain_test.h:", net.line));
  // hidden:rows is illegal together with batch:rows, so only dropping the rule
  // removes the collective.
  ASSERT_GE(sum.change, 0);
  const RuleChange& change = e->changes[sum.change];
  EXPECT_EQ(change.edit, "drop hidden:cols");
  EXPECT_EQ(change.layout, "batch:rows");
  EXPECT_EQ(change.cost.wire_bytes, 0);
  EXPECT_GT(change.cost.memory_bytes, e->cost.memory_bytes);
}

// Sections that differ on a mesh of eight axes: the search for the reshard of
// the parameter stops at its limit.
TEST(Explain, ReportsReshardsThatMaySendMoreThanNecessary) {
  Graph graph;
  const Dimension a{"a", 576}, b{"b", 576}, c{"c", 576}, d{"d", 576};
  const Tensor w =
      Variable(graph, "w",
               RandomUniform(graph, {a, b, c, d}, -1, 1, {.per_step = false}));
  const auto e = ExplainTextLayout(
      graph, "p:2,q:2,r:2,s:2,t:3,u:3,v:2,w:2",
      "b:r+t+p+q+u, c:w+s\n[parameters]\nb:replicated, c:q, a:r+t+s+v",
      {.fetches = {ReduceMean(Square(w), {})}}, {.changes = false});
  ASSERT_OK(e);
  ASSERT_EQ(e->notices.size(), 1u);
  EXPECT_THAT(e->notices[0],
              ::testing::StartsWith(
                  "1 reshard may send more bytes than necessary: on mesh "));
  EXPECT_THAT(e->notices[0], HasSubstr("%w"));
  EXPECT_THAT(ExplainText(*e, 120),
              ::testing::AllOf(HasSubstr("note: 1 reshard may send more bytes"),
                               HasSubstr("\n  reshard  %w "),
                               HasSubstr("\n  help     ")));
}

TEST(Explain, DroppingARuleOfSeveralAxesRemovesTheGather) {
  const TwoLayers net;
  // Fetching h gathers it over both axes; removing one axis from the rule
  // leaves a gather over the other.
  const auto e = ExplainTextLayout(net.graph, "rows:2,cols:2",
                                   "batch:rows+cols", {.fetches = {net.h}});
  ASSERT_OK(e);
  ASSERT_EQ(e->collectives.size(), 1u);
  EXPECT_EQ(e->collectives[0].axes, "rows+cols");
  ASSERT_GE(e->collectives[0].change, 0);
  EXPECT_EQ(e->changes[e->collectives[0].change].edit, "drop batch:rows+cols");

  const auto none =
      ExplainTextLayout(net.graph, "rows:2,cols:2", "batch:rows+cols",
                        {.fetches = {net.h}}, {.changes = false});
  ASSERT_OK(none);
  EXPECT_EQ(none->collectives[0].change, -1);
  EXPECT_EQ(none->collectives[0].no_change, "not tried");
}

TEST(Explain, CollectiveOfTwoRulesIsRemovedByDroppingBoth) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kHidden});
  const auto e =
      ExplainTextLayout(graph, "rows:2,cols:2", "batch:rows, hidden:cols",
                        {.fetches = {ReduceSum(x, {})}});
  ASSERT_OK(e);
  ASSERT_EQ(e->collectives.size(), 1u);
  EXPECT_EQ(e->collectives[0].axes, "rows+cols");
  ASSERT_GE(e->collectives[0].change, 0);
  EXPECT_EQ(e->changes[e->collectives[0].change].edit,
            "drop batch:rows, hidden:cols");
}

// Reducing over four ranks is cheaper if the tensor is first sliced over the
// free axis; the all_gather that follows has the same rule as the reduction.
TEST(Explain, CollectivesOverAFreeAxisHaveTheRuleOfTheirReshard) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kHidden});
  const auto e = ExplainTextLayout(graph, "data:4,model:2",
                                   "batch:data, [optimizer] hidden:model",
                                   {.fetches = {ReduceSum(x, {kHidden})}});
  ASSERT_OK(e);
  bool over_model = false;
  for (const ExplainedCollective& c : e->collectives) {
    over_model = over_model || c.axes.find("model") != std::string::npos;
    EXPECT_EQ(c.dimension, "batch") << c.kind;
    EXPECT_EQ(c.rule, "batch:data") << c.kind;
    EXPECT_EQ(c.rule_origin, "--layout, rule 1 of 2, characters 1-10");
    EXPECT_EQ(c.rules, std::vector<int>{0});
    ASSERT_GE(c.change, 0) << c.kind;
    EXPECT_EQ(e->changes[c.change].edit, "drop batch:data");
    EXPECT_EQ(c.no_change, "");
  }
  EXPECT_TRUE(over_model);
}

// Without the rule of the length, a layer reduces activations of the operation
// whose gradients it reduces with the rule. The two reductions have different
// causes, so the rule change does remove the second.
TEST(Explain, EveryCollectiveOfEveryPresetHasAChangeThatRemovesIt) {
  for (const std::string& preset : LayoutRules::PresetNames()) {
    const Explained explained(preset);
    ASSERT_OK(explained.explanation) << preset;
    for (const ExplainedCollective& c : explained.explanation->collectives) {
      EXPECT_GE(c.change, 0) << preset << " " << c.number << ": " << c.kind
                             << " of " << c.tensor << ", " << c.no_change;
    }
  }
}

std::map<std::string, const ExplainedRule*> ByText(const Explanation& e) {
  std::map<std::string, const ExplainedRule*> rules;
  for (const ExplainedRule& rule : e.rules) {
    rules[rule.section + " " + rule.rule] = &rule;
  }
  return rules;
}

TEST(Explain, RulesAreUsedUnusedOrShadowed) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kIo});
  const Dimension rank{"rank", 6};
  const Tensor w =
      Variable(graph, "w", Zeros(graph, kFloat32, {kIo, rank, kHidden}));
  const Tensor y = Einsum({x, w}, {kBatch});
  const auto e =
      ExplainTextLayout(graph, "a:2,b:2,one:1",
                        "batch:a, rank:b, experts:a, io:one, hidden:far,"
                        "[parameters], rank:b, batch:b",
                        {.fetches = {y}});
  ASSERT_OK(e);
  const auto rules = ByText(*e);
  ASSERT_EQ(rules.size(), 7u);
  EXPECT_EQ(rules.at("default batch:a")->use, RuleUse::kUsed);
  // Rules without effect save nothing, and are not tried.
  EXPECT_EQ(rules.at("default experts:a")->saved->total(), 0);
  EXPECT_GE(rules.at("default batch:a")->dropped, 0);
  EXPECT_EQ(rules.at("default experts:a")->dropped, -1);
  EXPECT_EQ(rules.at("default rank:b")->use, RuleUse::kUsed);
  EXPECT_EQ(rules.at("default experts:a")->use, RuleUse::kUnused);
  EXPECT_EQ(rules.at("default experts:a")->why, "no tensor has the dimension");
  EXPECT_EQ(rules.at("default io:one")->why, "its axis has size 1");
  EXPECT_EQ(rules.at("default hidden:far")->why, "the mesh lacks its axis");
  EXPECT_EQ(rules.at("parameters rank:b")->why,
            "the default section has the same rule");
  EXPECT_EQ(rules.at("parameters batch:b")->why,
            "no parameter has the dimension");
  // Of hidden:far, experts:a and [parameters] batch:b.
  EXPECT_EQ(e->notices.size(), 3u);
}

TEST(Explain, OverriddenDefaultRuleIsShadowed) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Zeros(graph, kFloat32, {kIo, kHidden}));
  const auto e =
      ExplainTextLayout(graph, "a:2,b:2", "hidden:a, [parameters], hidden:b",
                        {.fetches = {w}, .fetch_shards = true});
  ASSERT_OK(e);
  const auto rules = ByText(*e);
  EXPECT_EQ(rules.at("default hidden:a")->use, RuleUse::kShadowed);
  EXPECT_EQ(rules.at("default hidden:a")->why,
            "overridden by [parameters] hidden:b");
  EXPECT_EQ(rules.at("parameters hidden:b")->use, RuleUse::kUsed);
}

TEST(Explain, RuleSavesTheMemoryWithoutItMinusTheMemoryWithIt) {
  const TwoLayers net;
  const auto with = ExplainTextLayout(net.graph, "rows:2,cols:2",
                                      "batch:rows, hidden:cols", net.targets());
  const auto without = ExplainTextLayout(net.graph, "rows:2,cols:2",
                                         "batch:rows", net.targets());
  ASSERT_OK(with);
  ASSERT_OK(without);
  const ExplainedRule& rule = *ByText(*with).at("default hidden:cols");
  EXPECT_EQ(rule.saved->total(),
            without->cost.memory_bytes - with->cost.memory_bytes);
  EXPECT_GT(rule.saved->total(), 0);
}

TEST(Explain, SavedMemoryIsReportedByPurpose) {
  const Explained step("zero2");
  ASSERT_OK(step.explanation);
  const auto rules = ByText(*step.explanation);
  const ExplainedRule& state = *rules.at("optimizer d_model:data");
  ASSERT_TRUE(state.saved.has_value());
  // The rule shards only the optimizer state, over four ranks.
  const MemoryParts& now = step.explanation->memory.parts;
  EXPECT_EQ(state.saved->parameters, 0);
  EXPECT_EQ(state.saved->optimizer_state, 3 * (now.optimizer_state - 4));
  EXPECT_EQ(state.saved->total(),
            step.explanation->changes[state.dropped].cost.memory_bytes -
                step.explanation->cost.memory_bytes);
}

// `instead` names collectives that the explanation of the changed layout has,
// and the present one has fewer of.
TEST(Explain, NamesTheCollectivesThatReplaceARemovedOne) {
  const auto sent = [](const Explanation& e) {
    std::map<std::string, int64_t> bytes;  // by "kind over axes"
    for (const ExplainedCollective& c : e.collectives) {
      bytes[absl::StrCat(c.kind, " over ", c.axes)] += c.bytes;
    }
    return bytes;
  };
  std::map<std::string, int> replaced;  // by preset
  for (const std::string preset : {"data", "zero2", "zero3"}) {
    const Explained step(preset, 1);
    ASSERT_OK(step.explanation);
    auto before = sent(*step.explanation);
    for (const ExplainedCollective& c : step.explanation->collectives) {
      if (c.instead.empty()) continue;
      ASSERT_GE(c.change, 0);
      ++replaced[preset];
      const auto rules = LayoutRules::Parse(
          step.explanation->changes[c.change].layout, "changed");
      ASSERT_OK(rules);
      const auto after =
          Explain(step.graph, step.mesh, *rules, step.targets, TestMachine());
      ASSERT_OK(after);
      auto changed = sent(*after);
      for (absl::string_view added : absl::StrSplit(c.instead, ", ")) {
        const std::string item(added);
        EXPECT_GT(changed[item], before[item]) << preset << " " << c.tensor;
      }
    }
  }
  // With replicated optimizer state, gradients are not reduce-scattered.
  EXPECT_GT(replaced["zero2"], 0);
  EXPECT_GT(replaced["zero3"], 0);
  // A replicated batch needs no reductions.
  EXPECT_EQ(replaced["data"], 0);
}

// -------------------------------------------------------------- few layers

// Costs extrapolated from a few layers equal those of all layers.
class FewLayers : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Explain, FewLayers,
                         ::testing::ValuesIn(LayoutRules::PresetNames()),
                         [](const auto& info) { return info.param; });

TEST_P(FewLayers, FindTheSameChangesAsAllLayers) {
  const Explained all(GetParam(), 16, {.most_operations = 1 << 30}),
      few(GetParam(), 16, {.most_operations = 0});
  ASSERT_OK(all.explanation);
  ASSERT_OK(few.explanation);
  const Explanation &a = *all.explanation, &b = *few.explanation;
  EXPECT_EQ(a.changes_note, "");
  EXPECT_THAT(b.changes_note, HasSubstr("a few of the repeated layers"));
  ASSERT_EQ(a.changes.size(), b.changes.size());
  for (size_t i = 0; i < a.changes.size(); ++i) {
    const StepCost &exact = a.changes[i].cost, &few_cost = b.changes[i].cost;
    EXPECT_EQ(a.changes[i].edit, b.changes[i].edit);
    EXPECT_EQ(a.changes[i].layout, b.changes[i].layout);
    EXPECT_EQ(exact.wire_bytes, few_cost.wire_bytes) << a.changes[i].edit;
    EXPECT_EQ(a.changes[i].memory.parameters, b.changes[i].memory.parameters);
    EXPECT_EQ(a.changes[i].memory.optimizer_state,
              b.changes[i].memory.optimizer_state);
    EXPECT_NEAR(exact.seconds, few_cost.seconds, 0.001 * exact.seconds)
        << a.changes[i].edit;
    // The memory of tensors does not depend on their packing; fragmentation may
    // differ by 1/64 of the arena (PackBlocks).
    const MemoryParts &x = a.changes[i].memory, &y = b.changes[i].memory;
    const double tensors = static_cast<double>(x.total() - x.unused);
    EXPECT_NEAR(tensors, static_cast<double>(y.total() - y.unused),
                0.001 * tensors)
        << a.changes[i].edit;
    EXPECT_NEAR(static_cast<double>(exact.memory_bytes),
                static_cast<double>(few_cost.memory_bytes), tensors / 64)
        << a.changes[i].edit;
  }
  ASSERT_EQ(a.collectives.size(), b.collectives.size());
  for (size_t i = 0; i < a.collectives.size(); ++i) {
    EXPECT_EQ(a.collectives[i].change, b.collectives[i].change)
        << a.collectives[i].tensor;
    EXPECT_EQ(a.collectives[i].no_change, b.collectives[i].no_change);
    EXPECT_EQ(a.collectives[i].instead, b.collectives[i].instead);
  }
}

TEST(Explain, DeepModelHasAChangeForEveryCollective) {
  const Explained deep("data_model", 96);
  ASSERT_OK(deep.explanation);
  EXPECT_GT(deep.graph.operations().size(), 30000u);
  EXPECT_GT(deep.explanation->collectives.size(), 300u);
  for (const ExplainedCollective& c : deep.explanation->collectives) {
    EXPECT_GE(c.change, 0) << c.tensor << " " << c.no_change;
  }
  for (const ExplainedRule& rule : deep.explanation->rules) {
    EXPECT_TRUE(rule.saved.has_value()) << rule.rule;
  }
}

}  // namespace
}  // namespace mtf::testing
