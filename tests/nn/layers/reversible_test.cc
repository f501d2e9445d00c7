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

TEST(ReversibleStack, ReportsWhatItCannotDifferentiate) {
  OracleGraph oracle;
  const Tensor x = oracle.Parameter("x", {batch, d});
  const Tensor w = oracle.Parameter("w", {d});
  const Tensor outside = w * 2.0;
  {
    Graph& graph = oracle.graph;
    ReversibleStack(x, x,
                    {[&](Tensor t) { return t * w; },
                     [&](Tensor t) { return t * StopGradient(outside); }});
    EXPECT_OK(graph.status());
  }
  ReversibleStack(x, x, {[&](Tensor t) { return t * outside; }});
  EXPECT_THAT(
      oracle.graph.status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("which is computed from variables outside of the "
                         "function")));
  Graph graph;
  const Tensor y = Input(graph, "y", kFloat32, {batch, d});
  ReversibleStack(y, y, {[&](Tensor t) { return Dense(t, {d}, {hidden}); }});
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the result of function 0 has another one")));
}

}  // namespace
}  // namespace mtf::nn
