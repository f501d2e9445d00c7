// SPDX-License-Identifier: Apache-2.0
//
// What losses, positions and local attention send: sums of positions and halos.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nn/attention/local_attention.h"
#include "nn/attention/position_bias.h"
#include "nn/attention/rotary.h"
#include "nn/losses/cross_entropy.h"
#include "nn/losses/sigmoid_cross_entropy.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/one_hot.h"
#include "tests/lowering/lower_test_util.h"

namespace mtf::testing {
namespace {

const Dimension kBatch{"batch", 2}, kLength{"length", 32}, kVocab{"vocab", 9},
    kHeads{"heads", 2}, kKey{"d_kv", 4};
constexpr int64_t kPositions = 64;
constexpr int64_t kRow = 2 * 2 * 4 * 4;  // bytes of a position, all heads

// The collectives of `y` and of the gradients of `xs`.
std::string CostsOf(Tensor y, std::vector<Tensor> xs, const char* mesh,
                    const char* layout) {
  std::vector<Tensor> fetches = Gradients(y, xs);
  fetches.push_back(y);
  return Costs(LowerText(y.graph(), mesh, layout,
                         {.fetches = fetches, .fetch_shards = true}));
}

// Of each position, the maximum, and the sums of exponentials, probabilities
// and products in one all_reduce: between two ranks, as many bytes as they
// have.
TEST(LayerBytes, SoftTargetsReduceFourNumbersOfAPosition) {
  Graph graph;
  const Tensor logits =
      Input(graph, "logits", kFloat32, {kBatch, kLength, kVocab});
  const Tensor targets =
      Input(graph, "targets", kFloat32, {kBatch, kLength, kVocab});
  const Tensor loss = nn::SoftmaxCrossEntropy(
      logits, kVocab, targets, {.label_smoothing = 0.1, .z_loss = 1e-3});
  EXPECT_EQ(CostsOf(loss, {logits, targets}, "model:2", "vocab:model"),
            absl::StrCat("all_reduce model 2x ", 4 * 4 * kPositions, "\n"));
}

TEST(LayerBytes, SigmoidCrossEntropyReducesOneNumber) {
  Graph graph;
  const Tensor logits = Input(graph, "logits", kFloat32, {kBatch, kVocab});
  const Tensor targets = Input(graph, "targets", kBool, {kBatch, kVocab});
  const Tensor loss = nn::SigmoidCrossEntropy(logits, targets);
  EXPECT_EQ(CostsOf(loss, {logits}, "model:2", "vocab:model"),
            "all_reduce model 1x 4\n");
}

struct Qkv {
  Graph graph;
  Tensor q, k, v;

  explicit Qkv(Shape shape = {kBatch, kLength, kHeads, kKey})
      : q(Input(graph, "q", kFloat32, shape)),
        k(Input(graph, "k", kFloat32, shape)),
        v(Input(graph, "v", kFloat32, shape)) {}
};

TEST(LayerBytes, LocalAttentionSendsTheRadiusOfKeysAndValues) {
  for (const bool causal : {false, true}) {
    Qkv t;
    const Tensor y = nn::LocalAttention(
        t.q, t.k, t.v,
        {.along = {{kLength, 3, 4}}, .d_kv = kKey, .causal = causal});
    ASSERT_OK(t.graph.status());
    // Keys and values forward, and their gradients back: from one side or two.
    const int64_t sides = causal ? 1 : 2;
    EXPECT_EQ(CostsOf(y, {}, "seq:4", "length:seq"),
              absl::StrCat("collective_permute seq ", 2 * sides, "x ",
                           2 * sides * 3 * kRow, "\n"));
    EXPECT_EQ(CostsOf(y, {t.q, t.k, t.v}, "seq:4", "length:seq"),
              absl::StrCat("collective_permute seq ", 4 * sides, "x ",
                           4 * sides * 3 * kRow, "\n"));
  }
}

TEST(LayerBytes, LocalAttentionGathersNothingOfUnevenShards) {
  for (const char* mesh : {"seq:3", "seq:4"}) {
    for (const int64_t block : {3, 5, 8}) {
      Qkv t;
      const Tensor y = nn::LocalAttention(
          t.q, t.k, t.v, {.along = {{kLength, 2, block}}, .d_kv = kKey});
      const std::string costs = CostsOf(y, {t.q, t.k, t.v}, mesh, "length:seq");
      EXPECT_EQ(costs.find("gather"), std::string::npos) << costs;
      EXPECT_EQ(costs.find("all_to_all"), std::string::npos) << costs;
    }
  }
}

TEST(LayerBytes, PositionsAlongAShardedLengthSendNothing) {
  for (const auto pairs :
       {nn::RotaryPairs::kHalves, nn::RotaryPairs::kInterleaved}) {
    Qkv t;
    const Tensor y = nn::RotaryEmbedding(t.q, kLength, kKey, {.pairs = pairs});
    EXPECT_EQ(CostsOf(y, {t.q}, "a:3,b:2", "length:a, heads:b"), "");
  }
  Graph graph;
  const Tensor bias = nn::RelativePositionBias(
      Range(graph, kLength), Range(graph, {"memory_length", 32}), kHeads);
  EXPECT_EQ(CostsOf(bias, {}, "a:3,b:2", "length:a, heads:b"), "");
}

}  // namespace
}  // namespace mtf::testing
