// SPDX-License-Identifier: Apache-2.0
#include "lowering/explain.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "lowering/estimate_time.h"
#include "lowering/explain_parts.h"
#include "lowering/parse_program.h"
#include "lowering/print_program.h"
#include "nlohmann/json.hpp"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"

namespace mtf::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const Dimension kBatch{"batch", 8}, kIo{"io", 4}, kHidden{"hidden", 16};

Machine TestMachine() { return *Machine::Load("h100_nvlink_ib"); }

absl::StatusOr<Explanation> ExplainTextLayout(
    const Graph& graph, absl::string_view mesh, absl::string_view layout,
    const Targets& targets, const ExplainOptions& options = {}) {
  MTF_ASSIGN_OR_RETURN(const Mesh parsed, Mesh::Parse(mesh));
  MTF_ASSIGN_OR_RETURN(const LayoutRules rules,
                       LayoutRules::Parse(layout, "--layout"));
  return Explain(graph, parsed, rules, targets, TestMachine(), options);
}

// A preset of the small transformer on a mesh where each of its rules cuts.
struct Explained {
  Graph graph;
  Transformer model;
  Mesh mesh;
  LayoutRules rules;
  Targets targets;
  absl::StatusOr<Explanation> explanation = absl::UnknownError("");

  explicit Explained(const std::string& preset, int layers = 2,
                     const ExplainOptions& options = {}) {
    model = BuildTransformer(graph, {.layers = layers});
    rules = *LayoutRules::Preset(preset);
    mesh = *LayoutRules::PresetMesh(preset, preset == "three_axes" ? 8 : 4);
    targets = {.fetches = {model.loss}, .updates = {model.step}};
    explanation = Explain(graph, mesh, rules, targets, TestMachine(), options);
  }
};

class Presets : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Explain, Presets,
                         ::testing::ValuesIn(LayoutRules::PresetNames()),
                         [](const auto& info) { return info.param; });

TEST_P(Presets, EveryCollectiveHasALineARuleAndAChange) {
  const Explained step(GetParam());
  ASSERT_OK(step.explanation);
  int number = 0;
  for (const ExplainedCollective& c : step.explanation->collectives) {
    EXPECT_EQ(c.number, ++number);
    EXPECT_THAT(c.site, HasSubstr(".h:")) << c.tensor;
    EXPECT_NE(c.rule, "") << c.tensor;
    EXPECT_THAT(c.rule_origin, HasSubstr("preset " + GetParam())) << c.tensor;
    EXPECT_NE(c.dimension, "") << c.tensor;
    EXPECT_GT(c.seconds, 0) << c.tensor;
    EXPECT_LE(c.exposed, c.seconds) << c.tensor;
    // A change, or the reason why none exists.
    EXPECT_EQ(c.change < 0, c.no_change != "") << c.tensor;
    EXPECT_NE(c.no_change, "not tried") << c.tensor;
  }
}

// What is said of a change is what the layout it leads to costs.
TEST_P(Presets, AChangeCostsWhatItsLayoutCostsAndRemovesWhatItIsSaidTo) {
  const Explained step(GetParam());
  ASSERT_OK(step.explanation);
  std::vector<absl::StatusOr<Explanation>> changed;
  for (const RuleChange& change : step.explanation->changes) {
    const auto rules = LayoutRules::Parse(change.layout, "--layout");
    ASSERT_OK(rules) << change.layout;
    changed.push_back(Explain(step.graph, step.mesh, *rules, step.targets,
                              TestMachine(), {.change_operations = 0}));
    ASSERT_OK(changed.back());
    EXPECT_EQ(changed.back()->cost.seconds, change.cost.seconds);
    EXPECT_EQ(changed.back()->cost.wire_bytes, change.cost.wire_bytes);
    EXPECT_EQ(changed.back()->cost.memory_bytes, change.cost.memory_bytes);
  }
  for (const ExplainedCollective& c : step.explanation->collectives) {
    if (c.change < 0) continue;
    for (const ExplainedCollective& other : changed[c.change]->collectives) {
      EXPECT_FALSE(other.kind == c.kind && other.axes == c.axes &&
                   other.tensor == c.tensor)
          << step.explanation->changes[c.change].edit << " leaves " << c.tensor;
    }
  }
}

TEST_P(Presets, TotalsAddUp) {
  const Explained step(GetParam());
  ASSERT_OK(step.explanation);
  const Explanation& e = *step.explanation;
  int64_t bytes = 0;
  double exposed = 0, seconds = 0, flops = 0;
  for (const ExplainedCollective& c : e.collectives) {
    bytes += c.bytes;
    exposed += c.exposed;
    seconds += c.seconds;
  }
  for (const ExplainedEinsum& einsum : e.einsums) flops += einsum.flops;
  EXPECT_EQ(e.cost.wire_bytes, bytes);
  EXPECT_NEAR(e.collective_seconds, seconds, 1e-12);
  EXPECT_NEAR(e.exposed, exposed, 1e-12);
  EXPECT_DOUBLE_EQ(e.flops, flops);
  for (const auto* totals : {&e.by_kind, &e.by_axis, &e.by_module}) {
    int64_t calls = 0, total_bytes = 0;
    double total_exposed = 0;
    for (const ExplainedTotal& total : *totals) {
      calls += total.calls;
      total_bytes += total.bytes;
      total_exposed += total.exposed;
    }
    EXPECT_EQ(calls, static_cast<int64_t>(e.collectives.size()));
    EXPECT_EQ(total_bytes, bytes);
    EXPECT_NEAR(total_exposed, exposed, 1e-12);
  }
  double compute = 0, module_flops = 0;
  for (const ExplainedTotal& total : e.by_module) {
    compute += total.compute;
    module_flops += total.flops;
  }
  EXPECT_NEAR(compute, e.compute, 1e-9 * e.compute);
  EXPECT_DOUBLE_EQ(module_flops, flops);
}

TEST_P(Presets, MemoryAddsUp) {
  const Explained step(GetParam());
  ASSERT_OK(step.explanation);
  const ExplainedMemory& m = step.explanation->memory;
  EXPECT_EQ(m.parameters + m.optimizer_state + m.arena, m.total);
  EXPECT_EQ(m.total, step.explanation->cost.memory_bytes);
  EXPECT_EQ(m.gradients + m.gathered + m.activations + m.unused, m.arena);
  // Places are aligned and may leave gaps, but not many.
  EXPECT_GE(m.unused, 0);
  EXPECT_LT(m.unused, m.arena / 3);
  int64_t alive = 0;
  for (size_t i = 0; i < m.alive.size(); ++i) {
    alive += m.alive[i].bytes;
    EXPECT_NE(m.alive[i].site, "") << m.alive[i].name;
    if (i > 0) {
      EXPECT_LE(m.alive[i].bytes, m.alive[i - 1].bytes);
    }
  }
  EXPECT_EQ(alive + m.unused, m.arena);
  // AdamW keeps two numbers for each of a parameter, and the step; zero2 shares
  // them out over four ranks.
  EXPECT_EQ(m.optimizer_state,
            2 * m.parameters / (GetParam() == "zero2" ? 4 : 1) + 4);
  // Nothing else is gathered while activations fill the memory.
  EXPECT_EQ(m.gathered > 0, GetParam() == "zero3");
}

TEST_P(Presets, AProgramAloneTellsTheSame) {
  const Explained step(GetParam());
  ASSERT_OK(step.explanation);
  const auto binding = BindLayout(step.graph, step.mesh, step.rules);
  ASSERT_OK(binding);
  const auto program = Lower(step.graph, *binding, step.targets);
  ASSERT_OK(program);
  const Explanation alone = ExplainProgram(*program, TestMachine());
  const ExplainedMemory &a = alone.memory, &b = step.explanation->memory;
  EXPECT_EQ(a.parameters, b.parameters);
  EXPECT_EQ(a.optimizer_state, b.optimizer_state);
  EXPECT_EQ(a.gradients, b.gradients);
  EXPECT_EQ(alone.cost.seconds, step.explanation->cost.seconds);
  ASSERT_EQ(alone.collectives.size(), step.explanation->collectives.size());
  for (const ExplainedCollective& c : alone.collectives) {
    EXPECT_THAT(c.no_change, HasSubstr("the model itself is needed"));
  }
}

// --------------------------------------------------------------- one einsum

struct TwoLayers {
  Graph graph;
  Tensor x, h, y;
  int line = 0;
  TwoLayers() {
    x = Input(graph, "x", kFloat32, {kBatch, kIo});
    const Tensor w1 =
        Variable(graph, "w1", Zeros(graph, kFloat32, {kIo, kHidden}));
    const Tensor w2 =
        Variable(graph, "w2", Zeros(graph, kFloat32, {kHidden, kIo}));
    h = Einsum({x, w1}, {kBatch, kHidden});
    line = __LINE__ + 1;
    y = Einsum({h, w2}, {kBatch, kIo});
  }
  Targets targets() const { return {.fetches = {y}, .fetch_shards = true}; }
};

TEST(Explain, TheCheapestChangeOfARuleIsNamedWithWhatItCosts) {
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
  EXPECT_EQ(sum.site, absl::StrCat("explain_test.cc:", net.line));
  // hidden:rows is illegal beside batch:rows, so dropping the rule is the only
  // way.
  ASSERT_GE(sum.change, 0);
  const RuleChange& change = e->changes[sum.change];
  EXPECT_EQ(change.edit, "drop hidden:cols");
  EXPECT_EQ(change.layout, "batch:rows");
  EXPECT_EQ(change.cost.wire_bytes, 0);
  EXPECT_GT(change.cost.memory_bytes, e->cost.memory_bytes);
}

TEST(Explain, WhatNoRuleChangesIsSaid) {
  const TwoLayers net;
  // The whole of h is fetched: the cut of both its dimensions is gathered, and
  // one rule less leaves the other.
  const auto e = ExplainTextLayout(net.graph, "rows:2,cols:2",
                                   "batch:rows+cols", {.fetches = {net.h}});
  ASSERT_OK(e);
  ASSERT_EQ(e->collectives.size(), 1u);
  EXPECT_EQ(e->collectives[0].axes, "rows+cols");
  ASSERT_GE(e->collectives[0].change, 0);
  EXPECT_EQ(e->changes[e->collectives[0].change].edit, "drop batch:rows+cols");

  const auto none =
      ExplainTextLayout(net.graph, "rows:2,cols:2", "batch:rows+cols",
                        {.fetches = {net.h}}, {.change_operations = 0});
  ASSERT_OK(none);
  EXPECT_EQ(none->collectives[0].change, -1);
  EXPECT_EQ(none->collectives[0].no_change, "not tried");
  EXPECT_THAT(none->changes_note, HasSubstr("0 of 3 changes"));
}

TEST(Explain, WhatTwoRulesCauseTogetherIsRemovedByDroppingBoth) {
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

TEST(Explain, AnEinsumIsHeldAgainstItsLowerBound) {
  const TwoLayers net;
  const auto e = ExplainTextLayout(net.graph, "rows:2,cols:2",
                                   "batch:rows, hidden:cols", net.targets());
  ASSERT_OK(e);
  ASSERT_EQ(e->einsums.size(), 2u);
  const ExplainedEinsum &first = e->einsums[0], &second = e->einsums[1];
  EXPECT_EQ(first.flops, 2.0 * 4 * 4 * 8);
  EXPECT_EQ(first.repeated, 1);
  EXPECT_EQ(first.moved_bytes, 0);
  EXPECT_EQ(first.layout, MatmulRegime::k2D);
  EXPECT_EQ(second.layout, MatmulRegime::k2D);
  EXPECT_EQ(second.sharding, "[batch:8/rows, io:4] sum hidden:16/cols");
  // All that is sent is the sum of the second.
  EXPECT_EQ(second.moved_bytes, static_cast<double>(e->cost.wire_bytes));
  EXPECT_EQ(second.bound_bytes, LowerBoundBytes(1, 8, 4, 16, 4, sizeof(float)));
}

TEST(Explain, WorkThatEveryRankDoesIsCountedAsRepeated) {
  const TwoLayers net;
  const auto e = ExplainTextLayout(net.graph, "rows:2,cols:2", "batch:rows",
                                   net.targets());
  ASSERT_OK(e);
  EXPECT_EQ(e->einsums[0].repeated, 2);
  EXPECT_EQ(e->einsums[0].layout, MatmulRegime::k1D);
  // Nothing is sent: each rank has a copy of what it needs.
  EXPECT_EQ(e->einsums[0].moved_bytes, 0);
}

TEST(LowerBound, IsThatOfAlDaasInEachRegime) {
  MatmulRegime regime;
  // One dimension: 48 = 16 * 4 - (16 * 4) / 4 words.
  EXPECT_DOUBLE_EQ(LowerBoundBytes(1, 1024, 16, 4, 4, 1, &regime), 48);
  EXPECT_EQ(regime, MatmulRegime::k1D);
  // Two: 2 * sqrt(64 * 64 * 4^2 / 16) + 256 less 288 owned.
  EXPECT_DOUBLE_EQ(LowerBoundBytes(1, 64, 4, 64, 16, 1, &regime), 96);
  EXPECT_EQ(regime, MatmulRegime::k2D);
  // Three: 8192^3 on 16 ranks, 19.1 million words; bf16 doubles it.
  EXPECT_NEAR(LowerBoundBytes(1, 8192, 8192, 8192, 16, 1, &regime), 19.1e6,
              0.05e6);
  EXPECT_EQ(regime, MatmulRegime::k3D);
  EXPECT_DOUBLE_EQ(LowerBoundBytes(1, 8192, 8192, 8192, 16, 2),
                   2 * LowerBoundBytes(1, 8192, 8192, 8192, 16, 1));
}

TEST(LowerBound, DoesNotCareForTheOrderOfTheSizes) {
  const double bound = LowerBoundBytes(1, 100, 20, 7, 12, 4);
  EXPECT_DOUBLE_EQ(LowerBoundBytes(1, 7, 100, 20, 12, 4), bound);
  EXPECT_DOUBLE_EQ(LowerBoundBytes(1, 20, 7, 100, 12, 4), bound);
}

TEST(LowerBound, IsNothingOnOneRankOrWhereProductsAreSharedOut) {
  MatmulRegime regime;
  EXPECT_EQ(LowerBoundBytes(1, 64, 64, 64, 1, 4, &regime), 0);
  EXPECT_EQ(LowerBoundBytes(8, 64, 64, 64, 8, 4, &regime), 0);
  EXPECT_EQ(regime, MatmulRegime::kNone);
  // Two ranks for each product.
  EXPECT_DOUBLE_EQ(LowerBoundBytes(4, 64, 64, 64, 8, 4),
                   LowerBoundBytes(1, 64, 64, 64, 2, 4));
}

// -------------------------------------------------------------------- rules

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
  // What does nothing need not be tried.
  EXPECT_GE(rules.at("default batch:a")->dropped, 0);
  EXPECT_EQ(rules.at("default experts:a")->dropped, -1);
  EXPECT_EQ(rules.at("default rank:b")->use, RuleUse::kUsed);
  EXPECT_EQ(rules.at("default experts:a")->use, RuleUse::kUnused);
  EXPECT_EQ(rules.at("default experts:a")->why, "no tensor has the dimension");
  EXPECT_EQ(rules.at("default io:one")->why, "its axis has size 1");
  EXPECT_EQ(rules.at("default hidden:far")->why, "the mesh lacks its axis");
  EXPECT_EQ(rules.at("parameters rank:b")->why,
            "the default section says the same");
  EXPECT_EQ(rules.at("parameters batch:b")->why,
            "no parameter has the dimension");
  EXPECT_EQ(e->notices.size(), 2u);
}

TEST(Explain, ARuleInWhosePlaceAnotherStandsIsShadowed) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Zeros(graph, kFloat32, {kIo, kHidden}));
  const auto e =
      ExplainTextLayout(graph, "a:2,b:2", "hidden:a, [parameters], hidden:b",
                        {.fetches = {w}, .fetch_shards = true});
  ASSERT_OK(e);
  const auto rules = ByText(*e);
  EXPECT_EQ(rules.at("default hidden:a")->use, RuleUse::kShadowed);
  EXPECT_EQ(rules.at("default hidden:a")->why,
            "[parameters] hidden:b stands in its place");
  EXPECT_EQ(rules.at("parameters hidden:b")->use, RuleUse::kUsed);
}

TEST(Explain, WhatARuleSavesIsTheMemoryWithoutItLessWithIt) {
  const TwoLayers net;
  const auto with = ExplainTextLayout(net.graph, "rows:2,cols:2",
                                      "batch:rows, hidden:cols", net.targets());
  const auto without = ExplainTextLayout(net.graph, "rows:2,cols:2",
                                         "batch:rows", net.targets());
  ASSERT_OK(with);
  ASSERT_OK(without);
  const ExplainedRule& rule = *ByText(*with).at("default hidden:cols");
  EXPECT_EQ(rule.memory_saved,
            without->cost.memory_bytes - with->cost.memory_bytes);
  EXPECT_GT(rule.memory_saved, 0);
}

TEST(Explain, ErrorsAreThoseOfTheLayout) {
  const TwoLayers net;
  const auto e = ExplainTextLayout(net.graph, "rows:2",
                                   "batch:rows, hidden:rows", net.targets());
  EXPECT_THAT(e, StatusIs(absl::StatusCode::kInvalidArgument,
                          HasSubstr("both cut over mesh axis \"rows\"")));
}

TEST(Explain, PaddingIsTold) {
  const TwoLayers net;
  const auto e =
      ExplainTextLayout(net.graph, "rows:3", "batch:rows", net.targets());
  ASSERT_OK(e);
  ASSERT_EQ(e->padding.size(), 1u);
  EXPECT_EQ(e->padding[0].dimension, "batch");
  EXPECT_EQ(e->padding[0].padded, 9);
  EXPECT_THAT(ExplainText(*e, 120),
              HasSubstr("padding: \"batch\" 8 in 9 places (11.1 % unused)\n"));
}

// The same program is explained, whatever the number of ranks.
TEST(Explain, SaysAsMuchOfFourThousandRanksAsOfEight) {
  Graph graph;
  const Transformer model = BuildTransformer(
      graph, {.batch = 64, .d_model = 64, .heads = 64, .d_ff = 64});
  const Targets targets = {.fetches = {model.loss}, .updates = {model.step}};
  const auto few = ExplainTextLayout(
      graph, "data:2,model:4", "batch:data, heads:model, d_ff:model", targets);
  const auto many =
      ExplainTextLayout(graph, "data:64,model:64",
                        "batch:data, heads:model, d_ff:model", targets);
  ASSERT_OK(few);
  ASSERT_OK(many);
  EXPECT_EQ(few->collectives.size(), many->collectives.size());
  EXPECT_EQ(few->timeline.size(), many->timeline.size());
  EXPECT_EQ(few->changes.size(), many->changes.size());
}

// -------------------------------------------------------------------- forms

TEST(ExplainText, AModuleIsTheFirstPartOfANameAndOfALayerTwo) {
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

// The titles over the collectives, or "".
std::string HeadOfCollectives(const std::string& text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(line), "no  ")) {
      return std::string(line);
    }
  }
  return "";
}

TEST_P(Presets, TextFitsItsWidth) {
  const Explained step(GetParam());
  ASSERT_OK(step.explanation);
  for (int width : {60, 80, 100, 120, 200}) {
    const std::string text = ExplainText(*step.explanation, width);
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      EXPECT_LE(static_cast<int>(line.size()), width) << line;
      EXPECT_FALSE(absl::EndsWith(line, " ")) << line;
    }
    // Whatever is left out, a collective has its rule, a way out and its line.
    if (!step.explanation->collectives.empty()) {
      for (const char* title : {" rule ", " removed by ", " made at"}) {
        EXPECT_THAT(HeadOfCollectives(text), HasSubstr(title));
      }
    }
  }
}

// The cells of the lines between `title` and the next empty line.
std::vector<std::vector<std::string>> CellsBehind(const std::string& text,
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

TEST(ExplainText, EqualLayersAreOneLineAndTotalsStayRight) {
  const Explained two("megatron", 2), six("megatron", 6);
  ASSERT_OK(two.explanation);
  ASSERT_OK(six.explanation);
  const std::string text = ExplainText(*six.explanation, 200);
  EXPECT_THAT(text, HasSubstr("layer_0..5/attention/output/einsum"));
  const auto few =
      CellsBehind(ExplainText(*two.explanation, 200), "collectives, ");
  const auto many = CellsBehind(text, "collectives, ");
  EXPECT_EQ(few.size(), many.size());
  ASSERT_GT(many.size(), 2u);
  int64_t calls = 0, bytes = 0;
  for (size_t i = 1; i < many.size(); ++i) {
    calls += std::stoll(many[i][3]);
    bytes += std::stoll(many[i][4]);
  }
  EXPECT_EQ(calls, static_cast<int64_t>(six.explanation->collectives.size()));
  EXPECT_EQ(bytes, six.explanation->cost.wire_bytes);
}

TEST(ExplainText, NothingSentIsSaid) {
  const TwoLayers net;
  const auto e = ExplainTextLayout(net.graph, "rows:2", "", net.targets());
  ASSERT_OK(e);
  EXPECT_THAT(ExplainText(*e, 120),
              HasSubstr("no collectives: nothing is sent between devices\n"));
}

TEST(ExplainText, TheMachineIsNamed) {
  const TwoLayers net;
  const auto e = ExplainTextLayout(net.graph, "", "", net.targets());
  ASSERT_OK(e);
  EXPECT_THAT(ExplainText(*e, 120), HasSubstr("machine h100_nvlink_ib"));
}

TEST_P(Presets, JsonHoldsTheNumbers) {
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

TEST_P(Presets, TheNumbersOfThePageAreThoseOfTheJson) {
  const Explained step(GetParam());
  ASSERT_OK(step.explanation);
  const std::string html = ExplainHtml(*step.explanation);
  const std::string open =
      "<script type=\"application/json\" id=\"explanation\">";
  const size_t begin = html.find(open);
  ASSERT_NE(begin, std::string::npos);
  const size_t end = html.find("</script>", begin);
  ASSERT_NE(end, std::string::npos);
  const std::string data =
      html.substr(begin + open.size(), end - begin - open.size());
  EXPECT_EQ(nlohmann::json::parse(data),
            nlohmann::json::parse(ExplainJson(*step.explanation)));
}

TEST(ExplainHtml, NeedsNothingFromElsewhere) {
  const Explained step("megatron");
  ASSERT_OK(step.explanation);
  const std::string html = ExplainHtml(*step.explanation);
  EXPECT_THAT(html, ::testing::StartsWith("<!DOCTYPE html>"));
  for (const char* link : {"src=", "href=", "@import", "url(", "fetch(",
                           "https://", "XMLHttpRequest", "@DATA@"}) {
    EXPECT_THAT(html, Not(HasSubstr(link))) << link;
  }
}

TEST(ExplainHtml, NamesCannotLeaveTheirElement) {
  Explanation e;
  e.machine = "</script><!-- \xff";
  const std::string html = ExplainHtml(e);
  EXPECT_THAT(html, Not(HasSubstr("</script><!--")));
  EXPECT_THAT(html, HasSubstr("\\u003c/script>\\u003c!--"));
}

TEST(ExplainProgram, ReadsAProgramFromText) {
  const Explained step("data_model");
  const auto binding = BindLayout(step.graph, step.mesh, step.rules);
  ASSERT_OK(binding);
  const auto program = Lower(step.graph, *binding, step.targets);
  ASSERT_OK(program);
  const auto parsed = ParseProgram(PrintProgram(*program));
  ASSERT_OK(parsed);
  const Explanation from_text = ExplainProgram(*parsed, TestMachine());
  ASSERT_OK(step.explanation);
  EXPECT_EQ(from_text.cost.wire_bytes, step.explanation->cost.wire_bytes);
  EXPECT_EQ(from_text.memory.parameters, step.explanation->memory.parameters);
  EXPECT_EQ(from_text.memory.arena, step.explanation->memory.arena);
}

TEST(ExplainProgram, SaysOnceThatItTriesNoChange) {
  const Explained step("megatron", 2, {.change_operations = 0});
  ASSERT_OK(step.explanation);
  const std::string text = ExplainText(*step.explanation, 100);
  EXPECT_THAT(text, HasSubstr("\nremoved by: not tried\n"));
  EXPECT_THAT(HeadOfCollectives(text),
              AllOf(HasSubstr("rule"), Not(HasSubstr("removed by"))));
}

TEST(ExplainProgram, FinishesAProgramThatIsNotLoweredYet) {
  const Explained step("data_model");
  const auto binding = BindLayout(step.graph, step.mesh, step.rules);
  ASSERT_OK(binding);
  LowerOptions options;
  options.last_pass = "emit_program";
  const auto program = Lower(step.graph, *binding, step.targets, options);
  ASSERT_OK(program);
  const Explanation e = ExplainProgram(*program, TestMachine());
  ASSERT_OK(step.explanation);
  EXPECT_EQ(e.cost.wire_bytes, step.explanation->cost.wire_bytes);
  EXPECT_EQ(e.cost.seconds, step.explanation->cost.seconds);
}

}  // namespace
}  // namespace mtf::testing
