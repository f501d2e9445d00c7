// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/batch_norm.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nn/layers/group_norm.h"
#include "nn/optimizers/sgd.h"
#include "ops/track_average.h"
#include "tests/fixtures.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

const Dimension kBatch{"batch", 3}, kHeight{"height", 2}, kWidth{"width", 5},
    kChannels{"channels", 4};
const Shape kImage = {kBatch, kHeight, kWidth, kChannels};

const VariableInfo& Variable(const Graph& graph, const std::string& name) {
  for (const VariableInfo& info : graph.variables()) {
    if (info.name == name) return info;
  }
  ADD_FAILURE() << "no variable " << name;
  return graph.variables()[0];
}

// Three training steps of tests/fixtures/batch_norm.py, and an evaluation.
TEST(BatchNorm, IsThatOfPyTorch) {
  const auto torch = testing::ReadFixture("batch_norm");
  std::vector<double> mean(4, 0), variance(4, 1);
  for (int step = 0; step < 3; ++step) {
    SCOPED_TRACE(step);
    const auto of = [&](const char* what) {
      return torch.at(absl::StrCat(step, "/", what)).values;
    };
    OracleGraph o;
    const Tensor x = o.Parameter("x", kImage, of("x"));
    const Tensor y = nn::BatchNorm(x, kChannels);
    const auto state = [&](const char* name, std::vector<double> values) {
      o.variables[absl::StrCat("batch_norm/", name)] = {
          {kChannels}, kFloat32, std::move(values)};
    };
    state("scale", torch.at("scale").values);
    state("bias", torch.at("bias").values);
    state("moving_mean", mean);
    state("moving_variance", variance);
    const Tensor loss =
        ReduceSum(y * Constant(o.graph, of("dy"), kFloat32, kImage), {});
    const std::vector<Tensor> gradients =
        Gradients(loss, {x, Variable(o.graph, "batch_norm/scale").read,
                         Variable(o.graph, "batch_norm/bias").read});
    const std::vector<AverageUpdate> updates = AverageUpdates(loss);
    ASSERT_EQ(updates.size(), 2);
    testing::ExpectNear(o.Run(y), of("y"), 1e-5);
    testing::ExpectNear(o.Run(gradients[0]), of("dx"), 1e-5);
    testing::ExpectNear(o.Run(gradients[1]), of("dscale"), 1e-5);
    testing::ExpectNear(o.Run(gradients[2]), of("dbias"), 1e-5);
    mean = o.Run(updates[0].next);
    variance = o.Run(updates[1].next);
    testing::ExpectNear(mean, of("moving_mean"), 1e-5);
    testing::ExpectNear(variance, of("moving_variance"), 1e-5);
    if (step < 2) continue;
    Scope scope(o.graph, "evaluated");
    ModeScope mode(o.graph, Mode::kEvaluate);
    const Tensor evaluated = nn::BatchNorm(x, kChannels);
    for (const char* name :
         {"scale", "bias", "moving_mean", "moving_variance"}) {
      o.variables[absl::StrCat("evaluated/batch_norm/", name)] =
          o.variables[absl::StrCat("batch_norm/", name)];
    }
    o.variables["evaluated/batch_norm/moving_mean"].data = mean;
    o.variables["evaluated/batch_norm/moving_variance"].data = variance;
    testing::ExpectNear(o.Run(evaluated), torch.at("evaluated").values, 1e-5);
    EXPECT_EQ(AverageUpdates(ReduceSum(evaluated, {})).size(), 0);
  }
}

TEST(BatchNorm, GradientsMatchDifferences) {
  for (const bool parameters : {true, false}) {
    OracleGraph o;
    const Tensor x = o.Parameter("x", {{"n", 3}, kChannels, {"m", 2}});
    o.ExpectGradientsOf(testing::Probe(
        o, Square(nn::BatchNorm(
               x, kChannels,
               {.epsilon = 0.1, .scale = parameters, .bias = parameters}))));
  }
}

TEST(BatchNorm, EvaluatedGradientsMatchDifferences) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {{"n", 3}, kChannels});
  ModeScope mode(o.graph, Mode::kEvaluate);
  const Tensor y = nn::BatchNorm(x, kChannels);
  o.variables["batch_norm/moving_variance"] = {
      {kChannels}, kFloat32, {0.5, 1, 2, 3}};
  o.ExpectGradientsOf(testing::Probe(o, y));
}

// An optimizer moves the averages; a fetch or an evaluation does not.
TEST(BatchNorm, OnlyAStepMovesTheAverages) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kChannels});
  Tensor y, evaluated;
  {
    Scope scope(o.graph, "network");
    y = nn::BatchNorm(x, kChannels);
  }
  {
    Scope scope(o.graph, "network", Scope::kReuse);
    ModeScope mode(o.graph, Mode::kEvaluate);
    evaluated = nn::BatchNorm(x, kChannels);
  }
  const Tensor step =
      nn::Sgd({.learning_rate = 0.1}).Minimize(ReduceSum(y * y * y, {}));
  ASSERT_OK(o.graph.status());
  const std::string name = "network/batch_norm/moving_mean";
  o.variables["network/batch_norm/moving_variance"] = {
      {kChannels}, kFloat32, {1, 1, 1, 1}};
  const std::vector<double> before = o.Value(name);
  const std::vector<double> first = o.Run(evaluated);
  o.Run(y);
  EXPECT_EQ(o.Value(name), before);
  std::vector<double> expected = before;
  for (int c = 0; c < 4; ++c) {
    double mean = 0;
    for (int b = 0; b < 3; ++b) mean += o.Value("x")[b * 4 + c] / 3;
    expected[c] += 0.1 * (mean - before[c]);
  }
  o.Run(step);
  testing::ExpectNear(o.Value(name), expected);
  EXPECT_NE(o.Run(evaluated), first);
}

TEST(BatchNorm, ALargeMeanLosesNoPrecision) {
  OracleGraph o;
  std::vector<double> values = testing::SomeNumbers(12, 3), large = values;
  for (double& value : large) value += 1e6;
  const Tensor x = o.Parameter("x", {kBatch, kChannels}, large);
  const Tensor small = o.Parameter("small", {kBatch, kChannels}, values);
  const nn::BatchNormOptions plain = {.scale = false, .bias = false};
  const Tensor y = nn::BatchNorm(x, kChannels, plain);
  const Tensor expected = nn::BatchNorm(small, kChannels, plain);
  testing::ExpectNear(o.Run(y), o.Run(expected), 1e-7);
}

TEST(BatchNorm, BadCallsAreErrors) {
  const auto expect = [](const Shape& shape, const Dimension& features,
                         const nn::BatchNormOptions& options,
                         const std::string& words) {
    Graph graph;
    nn::BatchNorm(Zeros(graph, kFloat32, shape), features, options);
    EXPECT_THAT(graph.status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words)));
  };
  expect(kImage, {"channels", 5}, {}, "\"channels\" is 5 in the call but 4");
  expect(kImage, kChannels, {.epsilon = 0}, ".epsilon");
  expect(kImage, kChannels, {.momentum = 2}, ".momentum is 2");
  expect({kChannels, {"batch", 1}}, kChannels, {},
         "has 1 elements of each \"channels\"");
  EXPECT_FALSE(nn::BatchNorm(Tensor(), kChannels).valid());
}

TEST(GroupNorm, IsThatOfPyTorch) {
  const auto torch = testing::ReadFixture("batch_norm");
  OracleGraph o;
  const Tensor x = o.Parameter("x", kImage, torch.at("2/x").values);
  const Tensor y = nn::GroupNorm(x, kChannels, 2, {kHeight, kWidth});
  o.variables["group_norm/scale"] = {
      {kChannels}, kFloat32, torch.at("scale").values};
  o.variables["group_norm/bias"] = {
      {kChannels}, kFloat32, torch.at("bias").values};
  const Tensor loss = ReduceSum(
      y * Constant(o.graph, torch.at("2/dy").values, kFloat32, kImage), {});
  testing::ExpectNear(o.Run(y), torch.at("group/y").values, 1e-5);
  testing::ExpectNear(o.Run(Gradients(loss, {x})[0]),
                      torch.at("group/dx").values, 1e-5);
}

TEST(GroupNorm, GradientsMatchDifferences) {
  for (const int64_t groups : {1, 2, 4}) {
    OracleGraph o;
    const Tensor x = o.Parameter("x", {kHeight, kChannels, {"batch", 2}});
    o.ExpectGradientsOf(testing::Probe(
        o, nn::GroupNorm(x, kChannels, groups, {kHeight}, {.epsilon = 0.1})));
  }
}

TEST(GroupNorm, BadCallsAreErrors) {
  const auto expect = [](int64_t groups, const Shape& spatial,
                         const std::string& words) {
    Graph graph;
    nn::GroupNorm(Zeros(graph, kFloat32, kImage), kChannels, groups, spatial);
    EXPECT_THAT(graph.status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words)));
  };
  expect(3, {kHeight}, "3 groups do not divide dimension \"channels\"");
  expect(0, {kHeight}, "0 groups do not divide");
  expect(2, {{"depth", 2}}, "\"depth\"");
  expect(2, {kChannels}, "both the channels and a spatial dimension");
  EXPECT_FALSE(nn::GroupNorm(Tensor(), kChannels, 2, {}).valid());
}

}  // namespace
}  // namespace mtf
