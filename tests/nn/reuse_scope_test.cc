// SPDX-License-Identifier: Apache-2.0
//
// Scopes that are built again with the variables of the first time.
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "mtf/graph.h"
#include "nn/layers/dense.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/layer_norm.h"
#include "nn/optimizers/sgd.h"
#include "ops/custom_gradient.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::OracleGraph;
using testing::StatusIs;

const Dimension batch{"batch", 4}, d{"d", 6}, hidden{"hidden", 8};

// Two dense layers of one name, and a layer in a scope.
Tensor Network(Tensor x) {
  x = nn::Dense(x, {d}, {hidden});
  x = nn::Dense(Dropout(x, 0.5), {hidden}, {d});
  const Scope block(x.graph(), "block");
  return nn::FeedForward(nn::LayerNorm(x, d), hidden, Relu, {.dropout = 0.5});
}

struct TwoNetworks {
  OracleGraph oracle;
  Tensor train, evaluate;

  explicit TwoNetworks(Mode mode) {
    Graph& graph = oracle.graph;
    const Tensor x = Input(graph, "x", kFloat32, {batch, d});
    oracle.feeds["x"] = HostTensor::FromDoubles(x.shape(), kFloat32,
                                                testing::SomeNumbers(24, 3));
    {
      const Scope scope(graph, "network");
      train = Network(x);
    }
    const Scope scope(graph, "network", Scope::kReuse);
    const ModeScope in_mode(graph, mode);
    evaluate = Network(x);
  }
};

TEST(ReuseScope, SharesVariables) {
  const TwoNetworks two(Mode::kEvaluate);
  EXPECT_OK(two.oracle.graph.status());
  std::vector<std::string> names;
  for (const VariableInfo& variable : two.oracle.graph.variables()) {
    names.push_back(variable.name);
  }
  EXPECT_THAT(names,
              ElementsAre("network/dense/kernel", "network/dense/bias",
                          "network/dense_1/kernel", "network/dense_1/bias",
                          "network/block/layer_norm/scale",
                          "network/block/layer_norm/bias",
                          "network/block/feed_forward/in/kernel",
                          "network/block/feed_forward/out/kernel"));
}

TEST(ReuseScope, EvaluatesWithoutDropout) {
  TwoNetworks two(Mode::kEvaluate);
  const auto values = two.oracle.RunAll({two.train, two.evaluate});
  EXPECT_NE(values[0], values[1]);
  // Without dropout in the first network, too, both are the same.
  OracleGraph plain;
  const Tensor x = Input(plain.graph, "x", kFloat32, {batch, d});
  plain.feeds["x"] =
      HostTensor::FromDoubles(x.shape(), kFloat32, testing::SomeNumbers(24, 3));
  const Scope scope(plain.graph, "network");
  const ModeScope mode(plain.graph, Mode::kEvaluate);
  const Tensor y = Network(x);
  plain.variables = two.oracle.variables;
  EXPECT_EQ(plain.RunAll({y})[0], values[1]);
}

TEST(ReuseScope, AddsUpTheGradientsOfBothUses) {
  TwoNetworks two(Mode::kEvaluate);
  const Tensor kernel = two.oracle.graph.variables()[0].read;
  const Tensor first = Gradients(ReduceSum(two.train, {}), {kernel})[0];
  const Tensor second = Gradients(ReduceSum(two.evaluate, {}), {kernel})[0];
  const Tensor both =
      Gradients(ReduceSum(two.train + two.evaluate, {}), {kernel})[0];
  const auto values = two.oracle.RunAll({first, second, both});
  for (size_t i = 0; i < values[0].size(); ++i) {
    EXPECT_NEAR(values[2][i], values[0][i] + values[1][i], 1e-9);
  }
}

TEST(ReuseScope, MayBeNestedAndRepeated) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {batch, d});
  Tensor y = x;
  for (int step = 0; step < 3; ++step) {
    const Scope scope(graph, "cell",
                      step == 0 ? Scope::kAsGiven : Scope::kReuse);
    y = nn::Dense(y, {d}, {d}, {.name = "dense"}) + nn::Dense(y, {d}, {d});
  }
  {
    const Scope outer(graph, "cell", Scope::kReuse);
    const Scope inner(graph, "dense_1", Scope::kReuse);
  }
  // Afterwards variables are new again.
  nn::Dense(y, {d}, {d});
  EXPECT_OK(graph.status());
  EXPECT_EQ(graph.variables().size(), 6);
  EXPECT_EQ(graph.variables().back().name, "dense/bias");
}

// Layers that a gradient function builds do not change the scope.
TEST(Scope, IsKeptWhereAGradientFunctionBuildsLayers) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {batch, d});
  const Tensor y = CustomGradient({x}, {x}, [](const auto& dy) {
    return std::vector<Tensor>{nn::LayerNorm(dy[0], d)};
  })[0];
  const Scope train(graph, "train");
  Gradients(y, {x});
  Variable(graph, "w", Zeros(graph, kFloat32, {d}));
  EXPECT_OK(graph.status());
  EXPECT_EQ(graph.variables()[0].name, "train/layer_norm/scale");
  EXPECT_EQ(graph.variables().back().name, "train/w");
}

absl::Status ErrorOf(const std::string& scope, const Dimension& out,
                     const std::string& layer) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {batch, d});
  {
    const Scope first(graph, "decoder");
    nn::Dense(x, {d}, {hidden}, {.name = "project"});
  }
  const Scope again(graph, scope, Scope::kReuse);
  nn::Dense(x, {d}, {out}, {.name = layer});
  return graph.status();
}

TEST(ReuseScope, StatesBothLinesIfNetworksDiffer) {
  EXPECT_OK(ErrorOf("decoder", hidden, "project"));
  EXPECT_THAT(
      ErrorOf("decoder", {"hidden", 9}, "project"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("variable \"decoder/project/kernel\" of scope "
                               "\"decoder\", reused at reuse_scope_test.cc:"),
                     HasSubstr("is f32 [d=6, hidden=8], created at "
                               "reuse_scope_test.cc:"),
                     HasSubstr("and not f32 [d=6, hidden=9]"))));
  EXPECT_THAT(
      ErrorOf("decoder", hidden, "projekt"),
      StatusIs(absl::StatusCode::kNotFound,
               AllOf(HasSubstr("has no variable \"decoder/projekt/kernel\"; "
                               "did you mean \"decoder/project/kernel\", "
                               "created at reuse_scope_test.cc:"))));
  EXPECT_THAT(
      ErrorOf("decode", hidden, "project"),
      StatusIs(absl::StatusCode::kNotFound,
               HasSubstr("no variable has been created in scope \"decode\" to "
                         "reuse; did you mean \"decoder\"?")));
}

}  // namespace
}  // namespace mtf
