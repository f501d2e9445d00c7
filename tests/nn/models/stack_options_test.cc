// SPDX-License-Identifier: Apache-2.0
//
// Options of TransformerStack and Residual, each against the functions that it
// stands for.
#include <functional>
#include <string>
#include <vector>

#include "nn/layers/dense.h"
#include "nn/layers/layer_norm.h"
#include "nn/models/transformer.h"
#include "ops/reshape.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

const Dimension kBatch{"batch", 2}, kLength{"length", 3}, kModel{"d_model", 4},
    kHeads{"heads", 2}, kKey{"d_kv", 2}, kHidden{"d_ff", 3};

nn::TransformerOptions SmallStack(int64_t layers) {
  return {.layers = layers,
          .attention = {.length = kLength, .heads = kHeads, .d_kv = kKey},
          .d_ff = kHidden};
}

TEST(StackSublayers, GivenOnesEqualTheDefault) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  const Tensor memory =
      o.Parameter("memory", {kBatch, {"memory_length", 5}, kModel});
  nn::TransformerOptions options = SmallStack(2);
  Tensor y, z;
  {
    const Scope scope(o.graph, "net");
    y = nn::TransformerStack(x, options, memory).output;
  }
  {
    const Scope scope(o.graph, "net", Scope::kReuse);
    options.sublayers = {nn::StackLayer::kSelfAttention,
                         nn::StackLayer::kMemoryAttention,
                         [](Tensor t, const nn::StackPlace&) {
                           return nn::FeedForward(t, kHidden, Gelu);
                         }};
    options.memories = {memory};
    z = nn::TransformerStack(x, options).output;
  }
  ASSERT_OK(o.graph.status());
  testing::ExpectNear(o.Run(y), o.Run(z), 1e-12);
}

TEST(StackSublayers, KnowTheirLayerAndMemory) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  nn::TransformerOptions options = {.layers = 5, .final_norm = false};
  options.residual.norm.kind = nn::NormKind::kNone;
  for (int m = 0; m < 2; ++m) {
    options.memories.push_back(
        Constant(o.graph, 100.0 * (m + 1), kFloat32, {kLength, kModel}));
  }
  options.sublayers = {[](Tensor t, const nn::StackPlace& place) {
    return t * 0.0 + place.memory + static_cast<double>(place.layer);
  }};
  const nn::Transformer result = nn::TransformerStack(x, options);
  ASSERT_OK(o.graph.status());
  ASSERT_EQ(result.states.size(), 6);
  // Layers 0 to 2 attend to the first memory, 3 and 4 to the second.
  const std::vector<double> sums = {0, 100, 201, 303, 506, 710};
  for (size_t i = 0; i < sums.size(); ++i) {
    std::vector<double> want = o.Value("x");
    for (double& value : want) value += sums[i];
    testing::ExpectNear(o.Run(result.states[i]), want);
  }
}

TEST(StackSublayers, RezeroBeginsAsTheIdentity) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  nn::TransformerOptions options = SmallStack(2);
  options.residual.norm.kind = nn::NormKind::kNone;
  options.residual.rezero = true;
  options.final_norm = false;
  const Tensor y = nn::TransformerStack(x, options).output;
  for (const VariableInfo& info : o.graph.variables()) {
    if (info.name.ends_with("rezero/scale") ||
        info.name.ends_with("rezero_1/scale")) {
      o.variables[info.name] = {{}, kFloat32, {0.0}};
    }
  }
  testing::ExpectNear(o.Run(y), o.Value("x"), 1e-12);
}

TEST(Residual, MasksPaddingClipsGradientsAndAnnealsDropout) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  const Tensor mask =
      Constant(o.graph, {1, 1, 0, 1, 0, 0}, kBool, {kBatch, kLength});
  Tensor seen;
  const Tensor y = nn::Residual(x,
                                [&](Tensor t) {
                                  seen = t;
                                  return t * 1000.0;
                                },
                                {.norm = {.kind = nn::NormKind::kNone},
                                 .clip_gradient = 0.5,
                                 .mask = mask});
  ASSERT_OK(o.graph.status());
  const std::vector<double> numbers = o.Value("x"), got = o.Run(seen);
  const std::vector<double> visible = {1, 1, 0, 1, 0, 0};
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i], numbers[i] * visible[i / 4]);
  }
  // The gradient of the branch is 1000 * 0.5 where it is not masked.
  const std::vector<double> dx = o.Run(Gradients(ReduceSum(y, {}), {x})[0]);
  for (size_t i = 0; i < dx.size(); ++i) {
    EXPECT_NEAR(dx[i], 1 + 500 * visible[i / 4], 1e-3);
  }
  const Tensor all =
      nn::Residual(x, [](Tensor t) { return t; },
                   {.norm = {.kind = nn::NormKind::kNone},
                    .dropout_rate = Constant(o.graph, 0.0, kFloat32, {})});
  std::vector<double> twice = numbers;
  for (double& value : twice) value *= 2;
  testing::ExpectNear(o.Run(all), twice);
}

TEST(ReversibleTransformer, AddsSublayersToTwoStreams) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  nn::TransformerOptions options = SmallStack(2);
  options.reversible = true;
  Tensor y;
  {
    const Scope scope(o.graph, "net");
    y = nn::TransformerStack(x, options).output;
  }
  Tensor x1 = x, x2 = x;
  {
    const Scope scope(o.graph, "net", Scope::kReuse);
    for (int i = 0; i < 4; ++i) {
      const Scope half(o.graph, "reversible/half_" + std::to_string(i));
      const Scope layer(o.graph, "layer_" + std::to_string(i / 2));
      const Tensor normal = nn::LayerNorm(x2, kModel);
      const Tensor f = i % 2 == 0 ? nn::SelfAttention(normal, options.attention)
                                  : nn::FeedForward(normal, kHidden, Gelu);
      x1 = std::exchange(x2, x1 + f);
    }
    x1 = nn::LayerNorm(x1 + x2, kModel);
  }
  ASSERT_OK(o.graph.status());
  testing::ExpectNear(o.Run(y), o.Run(x1), 1e-9);
  o.ExpectGradientsOf(testing::Probe(o, y));
}

TEST(StackErrors, SayWhatIsWrong) {
  const auto error = [](const std::function<void(nn::TransformerOptions&)>& set,
                        bool has_memory = false) {
    Graph graph;
    nn::TransformerOptions options = SmallStack(1);
    set(options);
    const Tensor x = Input(graph, "x", kFloat32, {kBatch, kLength, kModel});
    if (has_memory) options.memories = {x};
    nn::TransformerStack(x, options, has_memory ? x : Tensor());
    return graph.status();
  };
  using Options = nn::TransformerOptions;
  EXPECT_THAT(error([](Options& o) {
                o.sublayers = {nn::StackLayer::kMemoryAttention};
              }),
              StatusIs(kInvalid, HasSubstr("attends to a memory, but there is "
                                           "none")));
  EXPECT_THAT(error([](Options&) {}, true),
              StatusIs(kInvalid, HasSubstr("besides 1 .memories")));
  EXPECT_THAT(
      error([](Options& o) { o.sublayers = {nn::StackFunction()}; }),
      StatusIs(kInvalid, HasSubstr("a function of .sublayers is null")));
  EXPECT_THAT(
      error([](Options& o) { o.sublayers = {nn::StackLayer::kExperts}; }),
      StatusIs(kInvalid, HasSubstr(".experts is missing")));
  EXPECT_THAT(error([](Options& o) {
                o.reversible = true;
                o.residual.position = nn::NormPosition::kAfter;
              }),
              StatusIs(kInvalid, HasSubstr("norms after its sublayers")));
  EXPECT_THAT(error([](Options& o) {
                o.reversible = true;
                o.experts = {"experts", 2};
              }),
              StatusIs(kInvalid, HasSubstr("reversible stack has experts")));
  EXPECT_THAT(error([](Options& o) {
                o.ensemble = {"ensemble", 2};
                o.experts = {"experts", 2};
              }),
              StatusIs(kInvalid, HasSubstr("no kernels by member")));
  EXPECT_THAT(error([](Options& o) {
                o.ensemble = {"ensemble", 2};
              }),
              StatusIs(kInvalid, HasSubstr("ensemble")));
}

}  // namespace
}  // namespace mtf
