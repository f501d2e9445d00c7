// SPDX-License-Identifier: Apache-2.0
//
// What an explanation names: the phases of the step, its batch, its precision.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "nlohmann/json.hpp"
#include "nn/layers/dense.h"
#include "nn/optimizers/adam.h"
#include "ops/elementwise.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "planning/explain/explain_parts.h"
#include "tests/planning/explain/explain_test.h"

namespace mtf::testing {
namespace {

class Phases : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Explain, Phases,
                         ::testing::ValuesIn(LayoutRules::PresetNames()),
                         [](const auto& info) { return info.param; });

// Each phase is one stretch of time, and the names of operations agree.
TEST_P(Phases, FollowOneAnother) {
  const Explained step(GetParam());
  ASSERT_OK(step.explanation);
  std::vector<StepPhase> runs;
  for (const TimelineEntry& entry : step.explanation->timeline) {
    if (runs.empty() || runs.back() != entry.phase) runs.push_back(entry.phase);
    if (entry.collective > 0) continue;  // may have the name of another value
    const bool is_optimizer = absl::StrContains(entry.name, " adam");
    EXPECT_EQ(is_optimizer, entry.phase == StepPhase::kUpdate) << entry.name;
    if (absl::StrContains(entry.name, "_grad")) {
      EXPECT_EQ(entry.phase, StepPhase::kBackward) << entry.name;
    }
  }
  EXPECT_EQ(runs,
            (std::vector<StepPhase>{StepPhase::kForward, StepPhase::kBackward,
                                    StepPhase::kUpdate}));
  const auto json = nlohmann::json::parse(ExplainJson(*step.explanation));
  EXPECT_EQ(json["timeline"].front()["phase"], "forward");
  EXPECT_EQ(json["timeline"].back()["phase"], "update");
}

TEST(ExplainPhases, StepWithoutGradientsIsForward) {
  const TwoLayers net;
  const auto e =
      ExplainTextLayout(net.graph, "rows:2", "hidden:rows", net.targets());
  ASSERT_OK(e);
  ASSERT_FALSE(e->timeline.empty());
  for (const TimelineEntry& entry : e->timeline) {
    EXPECT_EQ(entry.phase, StepPhase::kForward) << entry.name;
  }
}

// A collective on gradients belongs to the backward pass though it is named
// after the loss, which it reduces too.
TEST(ExplainPhases, ReductionOfGradientsIsBackward) {
  const Explained step("data");
  ASSERT_OK(step.explanation);
  int reductions = 0;
  for (const TimelineEntry& entry : step.explanation->timeline) {
    if (entry.collective == 0) continue;
    EXPECT_EQ(entry.phase, StepPhase::kBackward) << entry.name;
    ++reductions;
  }
  EXPECT_GT(reductions, 0);
}

std::string BatchOf(const Graph& graph, const Tensor& fetch) {
  const auto e = ExplainTextLayout(graph, "", "", {.fetches = {fetch}});
  EXPECT_OK(e);
  return e.ok() ? e->batch : "";
}

TEST(ExplainBatch, HasTheDimensionsOfAllInputs) {
  const Dimension height{"height", 5};
  Graph graph;
  const Tensor image = Input(graph, "image", kFloat32, {kBatch, height});
  const Tensor label = Input(graph, "label", kFloat32, {kBatch});
  const Tensor rate = Input(graph, "rate", kFloat32, {});
  EXPECT_EQ(BatchOf(graph, image * label * rate), "batch:8");
  EXPECT_EQ(BatchOf(graph, image * rate), "batch:8, height:5");
  EXPECT_EQ(BatchOf(graph, rate + 1.0), "");
}

TEST(ExplainBatch, IsTheDimensionOfThatNameWithoutInputs) {
  Graph graph;
  const Tensor x = RandomUniform(graph, {kBatch, kIo}, 0, 1);
  EXPECT_EQ(BatchOf(graph, x * x), "batch:8");
  const Tensor y = RandomUniform(graph, {kIo}, 0, 1);
  EXPECT_EQ(BatchOf(graph, y * y), "");
}

std::string PrecisionOf(const Precision& precision) {
  Graph graph;
  PrecisionScope scope(graph, precision);
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kIo});
  const Tensor loss = ReduceMean(Square(nn::Dense(x, {kIo}, {kHidden})), {});
  const Targets targets = {.updates = {nn::AdamW().Minimize(loss)}};
  const auto e = ExplainTextLayout(graph, "", "", targets);
  EXPECT_OK(e);
  return e.ok() ? e->precision : "";
}

TEST(ExplainPrecision, NamesOneDTypeOrThatOfEachPart) {
  EXPECT_EQ(PrecisionOf({}), "f32");
  EXPECT_EQ(PrecisionOf({.activations = kBFloat16}),
            "einsums bf16, parameters f32, optimizer state f32");
  EXPECT_EQ(PrecisionOf({.parameters = kBFloat16, .activations = kBFloat16}),
            "einsums bf16, parameters bf16, optimizer state f32");
}

}  // namespace
}  // namespace mtf::testing
