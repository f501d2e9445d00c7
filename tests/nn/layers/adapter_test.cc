// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/adapter.h"

#include <cmath>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "nn/attention/attention.h"
#include "nn/layers/dense.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/reversible.h"
#include "nn/optimizers/adam.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Dimension kBatch{"batch", 2}, kModel{"d_model", 3}, kHeads{"heads", 2},
    kKey{"d_kv", 2}, kLength{"length", 4}, kFf{"d_ff", 5};

// The layers of `graph` that have adapters.
std::vector<std::string> Adapted(const Graph& graph) {
  std::vector<std::string> layers;
  constexpr absl::string_view kEnd = "/adapter/a";
  for (const VariableInfo& info : graph.variables()) {
    if (!absl::EndsWith(info.name, kEnd)) continue;
    layers.push_back(info.name.substr(0, info.name.size() - kEnd.size()));
  }
  return layers;
}

std::vector<std::string> StateOf(const Graph& graph) {
  std::vector<std::string> state;
  for (const VariableInfo& info : graph.variables()) {
    if (info.kind == VariableKind::kOptimizerState) state.push_back(info.name);
  }
  return state;
}

TEST(Adapter, AddsTheScaledProductOfAAndB) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  Tensor y;
  {
    const nn::AdapterScope scope(o.graph,
                                 {.pattern = "dense", .rank = 2, .alpha = 3});
    y = nn::Dense(x, {kModel}, {kHeads, kKey}, {.bias = false});
  }
  ASSERT_OK(o.graph.status());
  const Dimension rank{"adapter_rank", 2};
  EXPECT_EQ(o.graph.variables()[2].name, "dense/adapter/a");
  EXPECT_EQ(o.graph.variables()[2].shape, Shape({kModel, rank}));
  EXPECT_EQ(o.graph.variables()[3].name, "dense/adapter/b");
  EXPECT_EQ(o.graph.variables()[3].shape, Shape({rank, kHeads, kKey}));
  o.variables["dense/adapter/scale"] = {{}, kFloat32, {1.5}};
  const std::vector<double> actual = o.Run(y);
  const auto &in = o.Value("x"), &w = o.Value("dense/kernel"),
             &a = o.Value("dense/adapter/a"), &b = o.Value("dense/adapter/b");
  std::vector<double> expected;
  for (int row = 0; row < 2; ++row) {
    for (int n = 0; n < 4; ++n) {
      double sum = 0;
      for (int k = 0; k < 3; ++k) {
        double merged = w[k * 4 + n];
        for (int r = 0; r < 2; ++r) {
          merged += 1.5 * a[k * 2 + r] * b[r * 4 + n];
        }
        sum += in[row * 3 + k] * merged;
      }
      expected.push_back(sum);
    }
  }
  testing::ExpectNear(actual, expected);
}

// The initial value of each variable.
OracleVariables InitialValues(const Graph& graph) {
  OracleVariables variables;
  EXPECT_OK(InitializeVariables(graph, 1, &variables));
  return variables;
}

TEST(Adapter, ChangesNeitherTheFunctionNorOtherInitialValues) {
  const auto run = [](bool adapted) {
    OracleGraph o;
    const Tensor x = Constant(o.graph, testing::SomeNumbers(6, 1), kFloat32,
                              {kBatch, kModel});
    const auto build = [&] {
      return nn::FeedForward(nn::Dense(x, {kModel}, {kKey}), kFf, Gelu);
    };
    Tensor y;
    if (adapted) {
      const nn::AdapterScope scope(o.graph, {.pattern = "**"});
      y = build();
    } else {
      y = build();
    }
    EXPECT_OK(o.graph.status());
    o.variables = InitialValues(o.graph);
    EXPECT_EQ(Adapted(o.graph).size(), adapted ? 3 : 0);
    if (adapted) {
      const auto& scale = o.variables["dense/adapter/scale"].data;
      EXPECT_THAT(scale, ElementsAre(2));
      for (double b : o.variables["dense/adapter/b"].data) EXPECT_EQ(b, 0);
      EXPECT_NE(o.variables["dense/adapter/a"].data[0], 0);
    }
    return o.Run(y);
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(Adapter, GradientsMatchDifferences) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kHeads, kModel});
  const nn::AdapterScope scope(o.graph, {.pattern = "**", .rank = 2});
  // A kernel for each head, and a name on both sides.
  const Tensor h =
      nn::Dense(x, {kModel}, {kModel}, {.activation = Tanh, .each = {kHeads}});
  EXPECT_EQ(o.graph.variables()[3].shape,
            Shape({kHeads, {"d_model_in", 3}, {"adapter_rank", 2}}));
  const Tensor y =
      nn::DenseProduct(h, {kHeads, kModel}, {kFf}, {Gelu, nullptr});
  o.ExpectGradientsOf(testing::Probe(o, y));
}

TEST(Adapter, BelongsToTheLayersThatMatch) {
  Graph graph;
  Tensor x = Input(graph, "x", kFloat32, {kBatch, kLength, kModel});
  {
    const nn::AdapterScope attention(graph, {.pattern = "layer_*/attention"});
    const nn::AdapterScope wide(graph, {.pattern = "**/out", .rank = 4});
    for (const char* name : {"layer_0", "layer_1"}) {
      const Scope layer(graph, name);
      x = x + nn::SelfAttention(
                  x, {.length = kLength, .heads = kHeads, .d_kv = kKey});
      x = x + nn::FeedForward(x, kFf, Gelu);
    }
  }
  nn::FeedForward(x, kFf, Gelu);
  ASSERT_OK(graph.status());
  EXPECT_THAT(
      Adapted(graph),
      ElementsAre("layer_0/attention/query", "layer_0/attention/key",
                  "layer_0/attention/value", "layer_0/attention/output",
                  "layer_0/feed_forward/out", "layer_1/attention/query",
                  "layer_1/attention/key", "layer_1/attention/value",
                  "layer_1/attention/output", "layer_1/feed_forward/out"));
  for (const VariableInfo& info : graph.variables()) {
    if (!absl::EndsWith(info.name, "/adapter/b")) continue;
    EXPECT_EQ(info.shape[0].size, absl::StrContains(info.name, "/out/") ? 4 : 8)
        << info.name;
  }
}

TEST(Adapter, OfExpertsHasItsMatricesForEachExpert) {
  Graph graph;
  const Dimension experts{"experts", 2};
  const Tensor x = Input(graph, "x", kFloat32, {experts, kBatch, kModel});
  const nn::AdapterScope scope(graph, {.pattern = "feed_forward", .rank = 2});
  nn::FeedForward(x, kFf, Gelu, {.each = {experts}});
  ASSERT_OK(graph.status());
  EXPECT_EQ(graph.variables()[1].shape,
            Shape({experts, kModel, {"adapter_rank", 2}}));
}

TEST(Adapter, TrainsWithoutStateForTheRest) {
  OracleGraph o;
  const Tensor x = Input(o.graph, "x", kFloat32, {kBatch, kModel});
  o.feeds["x"] =
      HostTensor::FromDoubles(x.shape(), kFloat32, testing::SomeNumbers(6, 3));
  Tensor loss;
  {
    const nn::AdapterScope scope(o.graph, {.pattern = "**", .rank = 1});
    loss = ReduceSum(Square(nn::Dense(x, {kModel}, {kKey})), {});
  }
  const Tensor step =
      nn::Adam({.average_decay = 0.9}).Minimize(loss, {.only = "**/adapter"});
  ASSERT_OK(o.graph.status());
  for (const std::string& name : StateOf(o.graph)) {
    EXPECT_TRUE(absl::StrContains(name, "/adapter/") || name == "adam/step")
        << name;
    EXPECT_FALSE(absl::StrContains(name, "/scale")) << name;
  }
  o.variables = InitialValues(o.graph);
  const OracleVariables before = o.variables;
  for (int i = 0; i < 3; ++i) o.Run(step);
  for (const char* same : {"dense/kernel", "dense/bias", "dense/adapter/scale"})
    EXPECT_EQ(o.Value(same), before.at(same).data) << same;
  for (const char* other : {"dense/adapter/a", "dense/adapter/b"})
    EXPECT_NE(o.Value(other), before.at(other).data) << other;
}

// A reversible stack computes its layers again after the scope has ended.
TEST(Adapter, IsPartOfLayersThatAreComputedAgain) {
  const auto run = [](bool reversible) {
    OracleGraph o;
    Tensor x = o.Parameter("x", {kBatch, kModel});
    Tensor y = o.Parameter("y", {kBatch, kModel});
    const std::vector<std::function<Tensor(Tensor)>> layers(
        2, [](Tensor t) { return nn::FeedForward(t, kFf, Tanh); });
    {
      const nn::AdapterScope scope(
          o.graph, {.pattern = "**", .rank = 2, .dropout = 0.25});
      if (reversible) {
        std::tie(x, y) = nn::ReversibleStack(x, y, layers);
      } else {
        const Scope stack(o.graph, "reversible");
        for (size_t i = 0; i < layers.size(); ++i) {
          const Scope half(o.graph, absl::StrCat("half_", i));
          x = std::exchange(y, x + layers[i](y));
        }
      }
    }
    std::vector<Tensor> parameters;
    for (const VariableInfo& info : o.graph.variables()) {
      if (info.trainable) parameters.push_back(info.read);
    }
    const auto gradients = Gradients(ReduceSum(x * x * y, {}), parameters);
    EXPECT_OK(o.graph.status());
    return o.RunAll(gradients);
  };
  const auto again = run(true), kept = run(false);
  ASSERT_EQ(again.size(), 2 + 2 * 2 * 3);
  ASSERT_EQ(again.size(), kept.size());
  for (size_t i = 0; i < kept.size(); ++i) {
    testing::ExpectNear(again[i], kept[i], 1e-8);
  }
}

TEST(Adapter, HasTheDTypesOfThePrecision) {
  Graph graph;
  const PrecisionScope precision(
      graph,
      {.master = kFloat32, .parameters = kBFloat16, .activations = kBFloat16});
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kModel});
  const nn::AdapterScope scope(graph, {.pattern = "dense"});
  const Tensor y = nn::Dense(x, {kModel}, {kKey}, {.bias = false});
  nn::AdamW().Minimize(ReduceSum(Cast(y, kFloat32), {}),
                       {.only = "**/adapter"});
  ASSERT_OK(graph.status());
  EXPECT_EQ(y.dtype(), kBFloat16);
  for (const VariableInfo& info : graph.variables()) {
    if (info.kind != VariableKind::kParameter) continue;
    const bool is_scale = absl::EndsWith(info.name, "/scale");
    EXPECT_EQ(info.dtype, is_scale ? kFloat32 : kBFloat16) << info.name;
    // The frozen kernel has no master copy.
    EXPECT_EQ(info.master >= 0, absl::EndsWith(info.name, "/a") ||
                                    absl::EndsWith(info.name, "/b"))
        << info.name;
  }
}

// Rounding the scale first would give another function than the merged kernel.
TEST(Adapter, ScalesInF32) {
  Graph graph;
  const PrecisionScope precision(
      graph,
      {.master = kFloat32, .parameters = kBFloat16, .activations = kBFloat16});
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kModel});
  const nn::AdapterScope scope(graph, {.pattern = "dense"});
  nn::Dense(x, {kModel}, {kKey}, {.bias = false});
  ASSERT_OK(graph.status());
  int uses = 0;
  for (const auto& operation : graph.operations()) {
    for (const Tensor& input : operation->inputs()) {
      const VariableInfo* info = graph.FindVariable(input);
      if (info == nullptr || info->name != "dense/adapter/scale") continue;
      EXPECT_EQ(operation->result().dtype(), kFloat32);
      ++uses;
    }
  }
  EXPECT_EQ(uses, 1);
}

// A network with an adapter, built a second time.
absl::Status BuildAgain(const std::string& pattern, bool bypass, OracleGraph& o,
                        Tensor* first, Tensor* second) {
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  {
    const Scope scope(o.graph, "net");
    const nn::AdapterScope adapters(o.graph, {.pattern = "**", .rank = 2});
    *first = nn::Dense(x, {kModel}, {kKey});
  }
  const Scope scope(o.graph, "net", Scope::kReuse);
  if (pattern.empty()) {
    *second = nn::Dense(x, {kModel}, {kKey});
  } else {
    const nn::AdapterScope adapters(
        o.graph, {.pattern = pattern, .rank = 2, .bypass = bypass});
    *second = nn::Dense(x, {kModel}, {kKey});
  }
  return o.graph.status();
}

TEST(Adapter, IsSharedByANetworkThatIsBuiltAgain) {
  for (const bool bypass : {false, true}) {
    OracleGraph o;
    Tensor first, second;
    ASSERT_OK(BuildAgain("net", bypass, o, &first, &second));
    EXPECT_EQ(Adapted(o.graph).size(), 1);
    const auto values = o.RunAll({first, second});
    EXPECT_EQ(values[0] == values[1], !bypass);
  }
  OracleGraph o;
  Tensor first, second;
  EXPECT_THAT(
      BuildAgain("", false, o, &first, &second),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("\"net/dense\" has an adapter"),
                     HasSubstr("adapter_test.cc"), HasSubstr(".bypass"))));
}

absl::Status StatusOf(const nn::AdapterOptions& options) {
  Graph graph;
  {
    const nn::AdapterScope scope(graph, options);
    const Scope layer(graph, "layer_3");
    nn::FeedForward(Input(graph, "x", kFloat32, {kBatch, kModel}), kFf, Gelu);
  }
  return graph.status();
}

TEST(AdapterErrors, NameTheOptionAndTheNearestPattern) {
  const auto invalid = [](const char* text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
  };
  EXPECT_THAT(StatusOf({.pattern = "layer_*/feed_foward"}),
              invalid("matches no Dense layer; did you mean "
                      "\"layer_*/feed_forward\"?"));
  EXPECT_THAT(StatusOf({.pattern = "feed_forward/out"}),
              invalid("did you mean \"**/feed_forward/out\"?"));
  EXPECT_THAT(StatusOf({.pattern = "convolution"}),
              invalid("such as \"layer_3/feed_forward/in\""));
  EXPECT_THAT(StatusOf({}), invalid("is not a pattern of layers"));
  EXPECT_THAT(StatusOf({.pattern = "a b"}),
              invalid("\"a b\" is not a pattern"));
  EXPECT_THAT(StatusOf({.pattern = "**", .rank = 0}), invalid(".rank is 0"));
  EXPECT_THAT(StatusOf({.pattern = "**", .alpha = INFINITY}),
              invalid(".alpha is inf"));
  EXPECT_THAT(StatusOf({.pattern = "**", .dropout = 1}),
              invalid(".dropout is 1"));
  Graph graph;
  { const nn::AdapterScope scope(graph, {.pattern = "**"}); }
  EXPECT_THAT(graph.status(), invalid("there is no Dense layer"));
  EXPECT_THAT(graph.status(), invalid("embeddings, heads of language models"));
}

TEST(AdapterErrors, TheNameOfTheRankIsTaken) {
  Graph graph;
  const nn::AdapterScope scope(graph, {.pattern = "**"});
  const Dimension rank{"adapter_rank", 3};
  nn::Dense(Input(graph, "x", kFloat32, {kBatch, rank}), {rank}, {kModel});
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has the dimension \"adapter_rank\"")));
}

// Scopes of another graph have no effect.
TEST(Adapter, ScopesBelongToTheirGraph) {
  Graph graph, other;
  const nn::AdapterScope scope(graph, {.pattern = "**"});
  nn::Dense(Input(graph, "x", kFloat32, {kBatch, kModel}), {kModel}, {kKey});
  nn::Dense(Input(other, "x", kFloat32, {kBatch, kModel}), {kModel}, {kKey});
  ASSERT_OK(other.status());
  EXPECT_THAT(Adapted(other), IsEmpty());
}

}  // namespace
}  // namespace mtf
