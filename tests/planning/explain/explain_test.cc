// SPDX-License-Identifier: Apache-2.0
//
// Collectives, einsums and memory of explanations.
#include "tests/planning/explain/explain_test.h"

#include <string>
#include <vector>

#include "lowering/parse_program.h"
#include "lowering/program/print_program.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Presets : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Explain, Presets,
                         ::testing::ValuesIn(LayoutRules::PresetNames()),
                         [](const auto& info) { return info.param; });

TEST_P(Presets, EveryCollectiveHasASiteARuleAndAChange) {
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
    EXPECT_FALSE(c.rules.empty()) << c.tensor;
  }
}

// The cost of a change is that of an explanation of the changed layout.
TEST_P(Presets, ChangeCostsAsMuchAsItsLayoutAndRemovesItsCollectives) {
  const Explained step(GetParam());
  ASSERT_OK(step.explanation);
  std::vector<absl::StatusOr<Explanation>> changed;
  for (const RuleChange& change : step.explanation->changes) {
    const auto rules = LayoutRules::Parse(change.layout, "--layout");
    ASSERT_OK(rules) << change.layout;
    changed.push_back(Explain(step.graph, step.mesh, *rules, step.targets,
                              TestMachine(), {.changes = false}));
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
  EXPECT_EQ(m.parts.parameters + m.parts.optimizer_state + m.arena, m.total);
  EXPECT_EQ(m.total, step.explanation->cost.memory_bytes);
  EXPECT_EQ(
      m.parts.gradients + m.parts.copies + m.parts.activations + m.parts.unused,
      m.arena);
  // Alignment and gaps waste little memory.
  EXPECT_GE(m.parts.unused, 0);
  EXPECT_LT(m.parts.unused, m.arena / 3);
  int64_t alive = 0;
  for (size_t i = 0; i < m.alive.size(); ++i) {
    alive += m.alive[i].bytes;
    EXPECT_NE(m.alive[i].site, "") << m.alive[i].name;
    if (i > 0) {
      EXPECT_LE(m.alive[i].bytes, m.alive[i - 1].bytes);
    }
  }
  EXPECT_EQ(alive + m.parts.unused, m.arena);
  // AdamW keeps two numbers per parameter, and the step; zero2 shards them over
  // four ranks.
  EXPECT_EQ(m.parts.optimizer_state,
            2 * m.parts.parameters / (GetParam() == "zero2" ? 4 : 1) + 4);
  // Only zero3 has gathered parameters at the peak.
  EXPECT_EQ(m.parts.copies > 0, GetParam() == "zero3");
}

TEST_P(Presets, ProgramWithoutGraphHasTheSameCosts) {
  const Explained step(GetParam());
  ASSERT_OK(step.explanation);
  const auto binding = BindLayout(step.graph, step.mesh, step.rules);
  ASSERT_OK(binding);
  const auto program = Lower(step.graph, *binding, step.targets);
  ASSERT_OK(program);
  const Explanation alone = ExplainProgram(*program, TestMachine());
  const ExplainedMemory &a = alone.memory, &b = step.explanation->memory;
  EXPECT_EQ(a.parts.parameters, b.parts.parameters);
  EXPECT_EQ(a.parts.optimizer_state, b.parts.optimizer_state);
  EXPECT_EQ(a.parts.gradients, b.parts.gradients);
  EXPECT_EQ(alone.cost.seconds, step.explanation->cost.seconds);
  ASSERT_EQ(alone.collectives.size(), step.explanation->collectives.size());
  for (const ExplainedCollective& c : alone.collectives) {
    EXPECT_THAT(c.no_change, HasSubstr("need the model itself"));
  }
}

TEST(Explain, EinsumIsComparedWithItsLowerBound) {
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
  // The only collective reduces the result of the second einsum.
  EXPECT_EQ(second.moved_bytes, static_cast<double>(e->cost.wire_bytes));
  EXPECT_EQ(second.bound_bytes, LowerBoundBytes(1, 8, 4, 16, 4, sizeof(float)));
}

// An einsum of bf16 operands with an f32 result can move the operands instead
// of the result.
TEST(Explain, LowerBoundCountsWordsOfTheNarrowestDType) {
  const Dimension m{"m", 8}, n{"n", 4}, k{"k", 16};
  Graph graph;
  const Tensor x = Input(graph, "x", kBFloat16, {m, k});
  const Tensor y = Input(graph, "y", kBFloat16, {k, n});
  const Tensor z = Einsum({x, y}, {m, n}, {.dtype = kFloat32});
  const auto e = ExplainTextLayout(graph, "rows:2,cols:2", "m:rows, n:cols",
                                   {.fetches = {z}});
  ASSERT_OK(e);
  ASSERT_EQ(e->einsums.size(), 1u);
  EXPECT_EQ(e->einsums[0].bound_bytes, LowerBoundBytes(1, 8, 4, 16, 4, 2));
}

TEST(Explain, ReplicatedWorkCountsAsRepeated) {
  const TwoLayers net;
  const auto e = ExplainTextLayout(net.graph, "rows:2,cols:2", "batch:rows",
                                   net.targets());
  ASSERT_OK(e);
  EXPECT_EQ(e->einsums[0].repeated, 2);
  EXPECT_EQ(e->einsums[0].layout, MatmulRegime::k1D);
  // Nothing is sent: each rank has copies of its operands.
  EXPECT_EQ(e->einsums[0].moved_bytes, 0);
}

TEST(LowerBound, MatchesAlDaasInEachRegime) {
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

TEST(LowerBound, DoesNotDependOnTheOrderOfTheSizes) {
  const double bound = LowerBoundBytes(1, 100, 20, 7, 12, 4);
  EXPECT_DOUBLE_EQ(LowerBoundBytes(1, 7, 100, 20, 12, 4), bound);
  EXPECT_DOUBLE_EQ(LowerBoundBytes(1, 20, 7, 100, 12, 4), bound);
}

TEST(LowerBound, IsZeroOnOneRankAndForDistributedBatches) {
  MatmulRegime regime;
  EXPECT_EQ(LowerBoundBytes(1, 64, 64, 64, 1, 4, &regime), 0);
  EXPECT_EQ(LowerBoundBytes(8, 64, 64, 64, 8, 4, &regime), 0);
  EXPECT_EQ(regime, MatmulRegime::kNone);
  // Two ranks for each product.
  EXPECT_DOUBLE_EQ(LowerBoundBytes(4, 64, 64, 64, 8, 4),
                   LowerBoundBytes(1, 64, 64, 64, 2, 4));
}

TEST(Explain, ReturnsTheErrorsOfTheLayout) {
  const TwoLayers net;
  const auto e = ExplainTextLayout(net.graph, "rows:2",
                                   "batch:rows, hidden:rows", net.targets());
  EXPECT_THAT(e, StatusIs(absl::StatusCode::kInvalidArgument,
                          HasSubstr("both sharded over mesh axis \"rows\"")));
}

TEST(Explain, ReportsPadding) {
  const TwoLayers net;
  const auto e =
      ExplainTextLayout(net.graph, "rows:3", "batch:rows", net.targets());
  ASSERT_OK(e);
  ASSERT_EQ(e->padding.size(), 1u);
  EXPECT_EQ(e->padding[0].dimension, "batch");
  EXPECT_EQ(e->padding[0].padded, 9);
  EXPECT_THAT(ExplainFullText(*e, 120),
              HasSubstr("padding: \"batch\" 8 padded to 9 (11.1 % unused)\n"));
}

// The lowered program does not depend on the number of ranks.
TEST(Explain, HasTheSameSizeForFourThousandRanksAsForEight) {
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

// The text form records which variables are optimizer state, so a program from
// a file has the same explanation as the model.
TEST_P(Presets, ProgramFromTextHasTheSameCosts) {
  const Explained step(GetParam());
  ASSERT_OK(step.explanation);
  const auto binding = BindLayout(step.graph, step.mesh, step.rules);
  ASSERT_OK(binding);
  const auto program = Lower(step.graph, *binding, step.targets);
  ASSERT_OK(program);
  const auto parsed = ParseProgram(PrintProgram(*program));
  ASSERT_OK(parsed);
  const Explanation from_text = ExplainProgram(*parsed, TestMachine());
  EXPECT_EQ(from_text.cost.wire_bytes, step.explanation->cost.wire_bytes);
  for (int64_t MemoryParts::*part : kMemoryParts) {
    EXPECT_EQ(from_text.memory.parts.*part,
              step.explanation->memory.parts.*part);
  }
  EXPECT_GT(from_text.memory.parts.optimizer_state, 0);
}

TEST(ExplainProgram, SaysOnceThatNoChangeWasTried) {
  const Explained step("megatron", 2, {.changes = false});
  ASSERT_OK(step.explanation);
  const std::string text = ExplainFullText(*step.explanation, 100);
  EXPECT_THAT(text, HasSubstr("\nremoved by: not tried\n"));
  EXPECT_THAT(text, Not(HasSubstr("  removed by")));
}

TEST(ExplainProgram, RunsTheMissingPasses) {
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
