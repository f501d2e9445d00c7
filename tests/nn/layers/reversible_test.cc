// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/reversible.h"

#include <algorithm>
#include <cmath>

#include "gmock/gmock.h"
#include "nn/layers/dense.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/layer_norm.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/stop_gradient.h"
#include "tests/nn/oracle.h"

namespace mtf::nn {
namespace {

using ::testing::HasSubstr;
using testing::OracleGraph;
using testing::StatusIs;

const Dimension batch{"batch", 3}, d{"d", 4}, hidden{"hidden", 5};

using Functions = std::vector<std::function<Tensor(Tensor)>>;

Functions Layers(int count, double dropout) {
  return Functions(count, [=](Tensor x) {
    return Dropout(
        FeedForward(LayerNorm(x, d), hidden, Tanh, {.dropout = dropout}),
        dropout);
  });
}

// The same stack with activations that are kept.
std::pair<Tensor, Tensor> KeptStack(Tensor x1, Tensor x2,
                                    const Functions& functions) {
  const Scope stack(x1.graph(), "reversible");
  for (size_t i = 0; i < functions.size(); ++i) {
    const Scope half(x1.graph(), absl::StrCat("half_", i));
    x1 = std::exchange(x2, x1 + functions[i](x2));
  }
  return {x1, x2};
}

// The loss, the gradients of both operands and of all parameters.
std::vector<std::vector<double>> RunStack(bool reversible, double dropout) {
  OracleGraph oracle;
  const Tensor x1 = oracle.Parameter("x1", {batch, d});
  const Tensor x2 = oracle.Parameter("x2", {batch, d});
  const Functions layers = Layers(3, dropout);
  const auto [y1, y2] =
      reversible ? ReversibleStack(x1, x2, layers) : KeptStack(x1, x2, layers);
  const Tensor loss = ReduceSum(y1 * y1 * y2 + Exp(y2), {});
  std::vector<Tensor> parameters;
  for (const VariableInfo& variable : oracle.graph.variables()) {
    parameters.push_back(variable.read);
  }
  std::vector<Tensor> fetches = Gradients(loss, parameters);
  fetches.push_back(loss);
  EXPECT_OK(oracle.graph.status());
  return oracle.RunAll(fetches);
}

TEST(ReversibleStack, HasTheGradientsOfAStackThatKeepsActivations) {
  for (const double dropout : {0.0, 0.25}) {
    const auto again = RunStack(true, dropout), kept = RunStack(false, dropout);
    ASSERT_EQ(again.size(), 2 + 3 * 4 + 1);
    ASSERT_EQ(again.size(), kept.size());
    for (size_t i = 0; i < kept.size(); ++i) {
      ASSERT_EQ(again[i].size(), kept[i].size());
      for (size_t j = 0; j < kept[i].size(); ++j) {
        EXPECT_NEAR(again[i][j], kept[i][j], 1e-8) << i << " " << dropout;
      }
    }
  }
}

// The gradients with respect to `xs` of a stack whose functions read tensors
// from outside: the operand of the stack and what depends on a parameter.
std::vector<std::vector<double>> RunCapturing(bool reversible, bool second) {
  OracleGraph oracle;
  const Tensor x = oracle.Parameter("x", {batch, d});
  const Tensor w = oracle.Parameter("w", {d});
  const Tensor twice = w * 2.0, both = twice * x;
  const Functions layers = {
      [=](Tensor t) { return Tanh(t * w + x); },
      [=](Tensor t) { return t * twice + both; },
      [=](Tensor t) { return Tanh(t + both * StopGradient(twice)); }};
  const auto [y1, y2] = reversible ? ReversibleStack(x, x * 0.5, layers)
                                   : KeptStack(x, x * 0.5, layers);
  Tensor loss = ReduceSum(y1 * y1 * y2, {});
  std::vector<Tensor> gradients = Gradients(loss, {x, w});
  if (second) {
    gradients = Gradients(ReduceSum(gradients[0] * gradients[0], {}) +
                              ReduceSum(gradients[1], {}),
                          {x, w});
  }
  EXPECT_OK(oracle.graph.status());
  return oracle.RunAll(gradients);
}

TEST(ReversibleStack, DifferentiatesWhatItsFunctionsCapture) {
  for (const bool second : {false, true}) {
    const auto again = RunCapturing(true, second);
    const auto kept = RunCapturing(false, second);
    for (size_t i = 0; i < kept.size(); ++i) {
      for (size_t j = 0; j < kept[i].size(); ++j) {
        EXPECT_NEAR(again[i][j], kept[i][j], 1e-7) << i << second;
      }
    }
  }
}

// Each copy has dropout masks of its own, the same in both passes.
TEST(ReversibleStack, MayBeBuiltTwiceWithTheSameParameters) {
  const auto run = [](bool reversible) {
    OracleGraph oracle;
    const Tensor x = oracle.Parameter("x", {batch, d});
    const Functions layers = Layers(2, 0.5);
    std::vector<Tensor> results;
    for (const auto naming : {Scope::kAsGiven, Scope::kReuse}) {
      const Scope scope(oracle.graph, "network", naming);
      const auto [y1, y2] =
          reversible ? ReversibleStack(x, x, layers) : KeptStack(x, x, layers);
      results.push_back(y1 * y2);
    }
    const Tensor w = oracle.graph.variables()[1].read;
    const Scope elsewhere(oracle.graph, "train");
    std::vector<Tensor> fetches;
    for (const Tensor& y : results) {
      fetches.push_back(Gradients(ReduceSum(y, {}), {w})[0]);
    }
    Variable(oracle.graph, "after", Zeros(oracle.graph, kFloat32, {}));
    EXPECT_EQ(oracle.graph.variables().back().name, "train/after");
    EXPECT_OK(oracle.graph.status());
    return oracle.RunAll(fetches);
  };
  const auto again = run(true), kept = run(false);
  EXPECT_NE(kept[0], kept[1]);
  for (size_t i = 0; i < kept.size(); ++i) {
    for (size_t j = 0; j < kept[i].size(); ++j) {
      EXPECT_NEAR(again[i][j], kept[i][j], 1e-8);
    }
  }
}

TEST(ReversibleStack, ReportsErrors) {
  const auto error = [](const Functions& functions) {
    Graph graph;
    const Tensor y = Input(graph, "y", kFloat32, {batch, d});
    ReversibleStack(y, y, functions);
    return graph.status();
  };
  EXPECT_THAT(
      error({[](Tensor t) { return Dense(t, {d}, {hidden}); }}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("the result of function 0 must have the shape and "
                         "dtype of x1")));
  EXPECT_THAT(error({nullptr}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("function 0 of a reversible stack is empty")));
}

}  // namespace
}  // namespace mtf::nn
