// SPDX-License-Identifier: Apache-2.0
//
// A complete language model built from the layers, as a user writes it.
#include "absl/strings/str_cat.h"
#include "nn/attention/attention.h"
#include "nn/layers/embedding.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/layer_norm.h"
#include "nn/losses/cross_entropy.h"
#include "nn/optimizers/adam.h"
#include "ops/elementwise.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;

const Dimension kBatch{"batch", 2}, kLength{"length", 6}, kModel{"d_model", 8},
    kHeads{"heads", 2}, kKey{"d_kv", 4}, kHidden{"d_ff", 16},
    kVocab{"vocab", 5};

Tensor LossOf(Graph& graph, Tensor tokens, Tensor targets,
              DType dtype = kFloat32) {
  Tensor x = nn::Embedding(tokens, kVocab, kModel, {.dtype = dtype});
  for (int layer = 0; layer < 2; ++layer) {
    Scope scope(graph, absl::StrCat("layer_", layer));
    x = x +
        nn::SelfAttention(
            nn::LayerNorm(x, kModel),
            {.length = kLength, .heads = kHeads, .d_kv = kKey, .causal = true});
    x = x + nn::FeedForward(nn::LayerNorm(x, kModel), kHidden, Gelu);
  }
  return nn::CrossEntropy(x, kVocab, targets);
}

TEST(Transformer, LearnsARepeatingSequence) {
  OracleGraph o;
  const Tensor tokens = o.Integers("tokens", {kBatch, kLength},
                                   {0, 3, 1, 4, 2, 0, 1, 4, 2, 0, 3, 1});
  const Tensor targets = o.Integers("targets", {kBatch, kLength},
                                    {3, 1, 4, 2, 0, 3, 4, 2, 0, 3, 1, 4});
  const Tensor loss = LossOf(o.graph, tokens, targets);
  const Tensor step = nn::AdamW({.learning_rate = 0.03}).Minimize(loss);
  ASSERT_OK(o.graph.status());
  ASSERT_OK(InitializeVariables(o.graph, 1, &o.variables));
  const double first = o.Run(loss)[0];
  EXPECT_GT(first, 1);  // log(5) is 1.6
  for (int i = 0; i < 30; ++i) o.Run(step);
  const double last = o.Run(loss)[0];
  EXPECT_LT(last, first / 50) << first << " -> " << last;
}

TEST(Transformer, PositionsDoNotDependOnTheFuture) {
  std::vector<double> losses[2];
  for (int variant = 0; variant < 2; ++variant) {
    OracleGraph o;
    const Tensor tokens =
        o.Integers("tokens", {kBatch, kLength},
                   {0, 3, 1, 4, 2, 0, 1, 4, 2, variant, 3, 1});
    Tensor x = nn::Embedding(tokens, kVocab, kModel);
    x = nn::SelfAttention(
        x, {.length = kLength, .heads = kHeads, .d_kv = kKey, .causal = true});
    losses[variant] = o.Run(x);
  }
  // Position 3 of the second example differs: earlier positions are equal.
  const int same = (6 + 3) * 8;
  for (int i = 0; i < same; ++i) EXPECT_EQ(losses[0][i], losses[1][i]) << i;
  for (int i = same; i < 96; ++i) EXPECT_NE(losses[0][i], losses[1][i]) << i;
}

// The oracle rounds only at casts, so the two differ little. The test checks
// that every layer returns the dtype of its input and that parameters are f32.
TEST(Transformer, RunsInBf16FromF32Parameters) {
  double losses[2];
  for (DType dtype : {kFloat32, kBFloat16}) {
    OracleGraph o;
    const Tensor tokens = o.Integers("tokens", {kBatch, kLength},
                                     {0, 3, 1, 4, 2, 0, 1, 4, 2, 0, 3, 1});
    const Tensor loss = LossOf(o.graph, tokens, tokens, dtype);
    const Tensor step = nn::AdamW().Minimize(loss);
    ASSERT_OK(o.graph.status());
    losses[dtype] = o.RunAll({loss, step})[0][0];
    int wide = 0;
    for (const auto& operation : o.graph.operations()) {
      if (operation->kind() != "einsum") continue;
      wide += operation->dtype() == kFloat32 ? 1 : 0;
    }
    if (dtype == kBFloat16) {
      EXPECT_EQ(wide, 0);
    }
    for (const VariableInfo& info : o.graph.variables()) {
      EXPECT_NE(info.dtype, kBFloat16) << info.name;
    }
  }
  EXPECT_NEAR(losses[1], losses[0], 0.05 * losses[0]);
}

TEST(Transformer, GradientsMatchDifferencesThroughAllLayers) {
  OracleGraph o;
  const Dimension batch{"batch", 1}, length{"length", 3}, model{"d_model", 4},
      heads{"heads", 2}, key{"d_kv", 2}, vocab{"vocab", 3};
  const Tensor tokens = o.Integers("tokens", {batch, length}, {0, 2, 1});
  const Tensor targets = o.Integers("targets", {batch, length}, {2, 1, 1});
  Tensor x = nn::Embedding(tokens, vocab, model);
  x = nn::PositionEmbedding(x, length, model);
  x = x + nn::SelfAttention(
              nn::RmsNorm(x, model),
              {.length = length, .heads = heads, .d_kv = key, .causal = true});
  x = x + nn::FeedForward(nn::LayerNorm(x, model), {"d_ff", 3}, Swish,
                          {.gated = true});
  o.ExpectGradientsOf(nn::CrossEntropy(x, vocab, targets, {.z_loss = 1e-2}));
}

TEST(Transformer, NamesOfParametersAreStable) {
  Graph graph;
  const Tensor tokens = Input(graph, "tokens", kInt32, {kBatch, kLength});
  const Tensor targets = Input(graph, "targets", kInt32, {kBatch, kLength});
  LossOf(graph, tokens, targets);
  ASSERT_OK(graph.status());
  std::vector<std::string> names;
  for (const VariableInfo& info : graph.variables()) {
    names.push_back(info.name);
  }
  EXPECT_THAT(names,
              ::testing::ElementsAre("embedding/table",                  //
                                     "layer_0/layer_norm/scale",         //
                                     "layer_0/layer_norm/bias",          //
                                     "layer_0/attention/query/kernel",   //
                                     "layer_0/attention/key/kernel",     //
                                     "layer_0/attention/value/kernel",   //
                                     "layer_0/attention/output/kernel",  //
                                     "layer_0/layer_norm_1/scale",       //
                                     "layer_0/layer_norm_1/bias",        //
                                     "layer_0/feed_forward/in/kernel",   //
                                     "layer_0/feed_forward/out/kernel",  //
                                     "layer_1/layer_norm/scale",         //
                                     "layer_1/layer_norm/bias",          //
                                     "layer_1/attention/query/kernel",   //
                                     "layer_1/attention/key/kernel",     //
                                     "layer_1/attention/value/kernel",   //
                                     "layer_1/attention/output/kernel",  //
                                     "layer_1/layer_norm_1/scale",       //
                                     "layer_1/layer_norm_1/bias",        //
                                     "layer_1/feed_forward/in/kernel",   //
                                     "layer_1/feed_forward/out/kernel",  //
                                     "cross_entropy/kernel"));
}

}  // namespace
}  // namespace mtf
