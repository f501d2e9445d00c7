// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/adam.h"

#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tests/nn/optimizers/bowl.h"

namespace mtf {
namespace {

using ::mtf::testing::Bowl;
using ::mtf::testing::kIo;
using ::mtf::testing::OracleGraph;
using ::testing::ElementsAre;

TEST(Adam, CorrectsTheBias) {
  Bowl bowl;
  const Tensor step = nn::Adam({.learning_rate = 0.1}).Minimize(bowl.loss);
  std::vector<double> m(3, 0.0), v(3, 0.0);
  bowl.ExpectTrajectory(step, [&](int i, double, double g, int t) {
    m[i] = 0.9 * m[i] + 0.1 * g;
    v[i] = 0.999 * v[i] + 0.001 * g * g;
    const double m_hat = m[i] / (1 - std::pow(0.9, t));
    const double v_hat = v[i] / (1 - std::pow(0.999, t));
    return 0.1 * m_hat / (std::sqrt(v_hat) + 1e-8);
  });
}

TEST(AdamW, DecayIsDecoupled) {
  Bowl bowl;
  const Tensor step = nn::AdamW({.learning_rate = 0.1,
                                 .beta1 = 0.8,
                                 .beta2 = 0.95,
                                 .epsilon = 0.01,
                                 .weight_decay = 0.2})
                          .Minimize(bowl.loss);
  std::vector<double> m(3, 0.0), v(3, 0.0);
  bowl.ExpectTrajectory(step, [&](int i, double w, double g, int t) {
    m[i] = 0.8 * m[i] + 0.2 * g;
    v[i] = 0.95 * v[i] + 0.05 * g * g;
    const double m_hat = m[i] / (1 - std::pow(0.8, t));
    const double v_hat = v[i] / (1 - std::pow(0.95, t));
    return 0.1 * (m_hat / (std::sqrt(v_hat) + 0.01) + 0.2 * w);
  });
}

TEST(AdamW, DecaysSelectedParameters) {
  OracleGraph o;
  const Tensor a = o.Parameter("a", {kIo}, {1, 1, 1});
  const Tensor b = o.Parameter("b", {}, {1});
  // The gradient is 0, so that only decay changes parameters.
  const Tensor loss = ReduceSum(a, {}) * 0.0 + b * 0.0;
  const Tensor step =
      nn::AdamW({.learning_rate = 0.5,
                 .weight_decay = 0.5,
                 .groups = {{.parameters = "b", .weight_decay = 0}}})
          .Minimize(loss);
  o.Run(step);
  testing::ExpectNear(o.Value("a"), {0.75, 0.75, 0.75});
  testing::ExpectNear(o.Value("b"), {1});
}

TEST(Adam, StateIsNamedAfterItsVariable) {
  Bowl bowl;
  nn::Adam().Minimize(bowl.loss);
  std::vector<std::string> names;
  for (const VariableInfo& info : bowl.o.graph.variables()) {
    names.push_back(info.name);
    if (info.name == "w") continue;
    EXPECT_EQ(info.kind, VariableKind::kOptimizerState) << info.name;
    EXPECT_FALSE(info.trainable) << info.name;
  }
  EXPECT_THAT(names, ElementsAre("w", "adam/step", "adam/w/m", "adam/w/v"));
}

// A scope may have any name, so the name of a parameter may, too.
TEST(Adam, AParameterMayHaveANameWithBlanks) {
  Graph graph;
  const Scope scope(graph, "layer 0");
  const Tensor w =
      Variable(graph, "w", Zeros(graph, kFloat32, {}), {.dtype = kBFloat16});
  nn::Adam().Minimize(Cast(w * w, kFloat32));
  EXPECT_OK(graph.status());
  std::vector<std::string> names;
  for (const VariableInfo& info : graph.variables()) names.push_back(info.name);
  EXPECT_THAT(names, ElementsAre("layer 0/w", "layer 0/adam/step",
                                 "layer 0/adam/layer 0/w/master",
                                 "layer 0/adam/layer 0/w/m",
                                 "layer 0/adam/layer 0/w/v"));
}

TEST(Adam, UpdatesBelongToTheOptimizersSectionButGradientsDoNot) {
  Bowl bowl;
  const size_t forward = bowl.o.graph.operations().size();
  const int line = __LINE__ + 1;
  nn::Adam({.max_gradient_norm = 1.0}).Minimize(bowl.loss);
  const auto& operations = bowl.o.graph.operations();
  size_t first = forward;
  while (first < operations.size() &&
         operations[first]->section() == LayoutSection::kDefault) {
    ++first;
  }
  // The gradients stand between the forward pass and the update.
  ASSERT_GT(first, forward);
  ASSERT_LT(first, operations.size());
  for (size_t i = first; i < operations.size(); ++i) {
    EXPECT_EQ(operations[i]->section(), LayoutSection::kOptimizer)
        << operations[i]->name();
    EXPECT_EQ(operations[i]->call_site(), (CallSite{"adam_test.cc", line}))
        << operations[i]->name();
  }
}

TEST(Adam, Bf16ParametersHaveF32State) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Zeros(graph, kBFloat16, {kIo}));
  const Tensor step = nn::Adam().Minimize(ReduceSum(w * w, {}));
  ASSERT_OK(graph.status());
  ASSERT_TRUE(step.valid());
  EXPECT_EQ(graph.variables()[2].name, "adam/w/m");
  EXPECT_EQ(graph.variables()[2].dtype, kFloat32);
}

TEST(Adam, TwoInOneGraphHaveSeparateState) {
  OracleGraph o;
  const Tensor a = o.Parameter("a", {}, {1.0});
  const Tensor b = o.Parameter("b", {}, {1.0});
  const nn::Optimizer adam = nn::Adam({.learning_rate = 0.1});
  const Tensor step_a = adam.Minimize(a * 1.0);
  const Tensor step_b = adam.Minimize(b * 1.0);
  ASSERT_OK(o.graph.status());
  for (int i = 0; i < 5; ++i) o.Run(step_a);
  // A constant gradient: every corrected update is the learning rate.
  EXPECT_NEAR(o.Value("a")[0], 0.5, 1e-6);
  EXPECT_EQ(o.Value("b")[0], 1.0);
  o.Run(step_b);
  EXPECT_NEAR(o.Value("b")[0], 0.9, 1e-6);
  EXPECT_EQ(o.Value("adam/step")[0], 5);
  EXPECT_EQ(o.Value("adam_1/step")[0], 1);
}

}  // namespace
}  // namespace mtf
