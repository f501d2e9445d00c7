// SPDX-License-Identifier: Apache-2.0
//
// Groups of heads, rotary embeddings, biases and windows of SelfAttention equal
// what users would compose.
#include "nn/attention/attention.h"
#include "nn/attention/masks.h"
#include "nn/attention/position_bias.h"
#include "nn/layers/dense.h"
#include "nn/layers/layer_scope.h"
#include "ops/one_hot.h"
#include "ops/reshape.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;

const Dimension kBatch{"batch", 2}, kLength{"length", 3},
    kMemory{"memory_length", 3}, kModel{"d_model", 3}, kHeads{"heads", 2},
    kGroups{"groups", 2}, kKey{"d_kv", 2};

TEST(SelfAttentionOptions, EqualTheComposition) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  const Tensor positions =
      o.Integers("positions", {kBatch, kLength}, {0, 1, 2, 5, 6, 9});
  const Tensor bias =
      nn::AlibiBias(Range(o.graph, kLength), Range(o.graph, kMemory), kHeads);
  Tensor y, expected;
  {
    const Scope scope(o.graph, "net");
    y = nn::SelfAttention(
        x, {.length = kLength,
            .heads = kHeads,
            .d_kv = kKey,
            .groups = kGroups,
            .rotary = nn::RotaryOptions{.base = 50, .positions = positions},
            .position_bias = bias,
            .window = 2,
            .soft_cap = 3});
  }
  {
    const Scope scope(o.graph, "net", Scope::kReuse);
    const nn::LayerScope layer(o.graph, "attention",
                               std::source_location::current());
    const auto project = [&](Shape heads, const char* name) {
      return nn::Dense(x, {kModel}, heads.With(kKey),
                       {.bias = false, .name = name});
    };
    const nn::RotaryOptions rotary = {.base = 50, .positions = positions};
    const Tensor q = nn::RotaryEmbedding(project({kGroups, kHeads}, "query"),
                                         kLength, kKey, rotary);
    Tensor k =
        nn::RotaryEmbedding(project({kGroups}, "key"), kLength, kKey, rotary);
    k = Rename(k, "length", "memory_length");
    const Tensor v =
        Rename(project({kGroups}, "value"), "length", "memory_length");
    const Tensor mask =
        nn::WindowMask(Range(o.graph, kLength), Range(o.graph, kMemory), 1, 2);
    const Tensor z = nn::DotProductAttention(q, k, v,
                                             {.length = kLength,
                                              .memory_length = kMemory,
                                              .d_kv = kKey,
                                              .mask = mask,
                                              .bias = bias,
                                              .soft_cap = 3});
    expected = nn::Dense(z, {kGroups, kHeads, kKey}, {kModel},
                         {.bias = false, .name = "output"});
  }
  ASSERT_OK(o.graph.status());
  EXPECT_EQ(y.shape(), x.shape());
  testing::ExpectNear(o.Run(y), o.Run(expected), 1e-12);
  o.ExpectGradientsOf(testing::Probe(o, y));
}

TEST(SelfAttentionOptions, GroupsShareKeysAndValues) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  nn::SelfAttention(
      x, {.length = kLength, .heads = kHeads, .d_kv = kKey, .groups = kGroups});
  ASSERT_OK(o.graph.status());
  const auto& variables = o.graph.variables();
  ASSERT_EQ(variables.size(), 5u);
  EXPECT_EQ(variables[1].shape, Shape({kModel, kGroups, kHeads, kKey}));
  EXPECT_EQ(variables[2].shape, Shape({kModel, kGroups, kKey}));
  EXPECT_EQ(variables[3].shape, Shape({kModel, kGroups, kKey}));
  EXPECT_EQ(variables[4].shape, Shape({kGroups, kHeads, kKey, kModel}));
}

}  // namespace
}  // namespace mtf
