// SPDX-License-Identifier: Apache-2.0
//
// What rankings, samples, statistics and parts of a tensor send where their
// dimension is sharded: bytes from each rank.
#include <string>

#include "ops/dynamic_shift.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/moments.h"
#include "ops/random_categorical.h"
#include "ops/reduce.h"
#include "ops/sort.h"
#include "ops/split.h"
#include "tests/lowering/lower_test_util.h"

namespace mtf::testing {
namespace {

const Dimension kBatch{"batch", 6}, kLength{"length", 64};

// The collectives of a program that returns `fetch` under length:x on 4 ranks.
std::string CostsOf(Graph& graph, Tensor fetch) {
  return Costs(LowerText(graph, "x:4", "length:x", {.fetches = {fetch}}));
}

int64_t BytesOf(Graph& graph, Tensor fetch) {
  const auto program =
      LowerText(graph, "x:4", "length:x", {.fetches = {fetch}});
  EXPECT_OK(program);
  int64_t bytes = 0;
  for (const auto& [key, count] : CountCollectives(*program)) {
    bytes += count.second;
  }
  return bytes;
}

Tensor Logits(Graph& graph) {
  return Input(graph, "x", kFloat32, {kBatch, kLength});
}

TEST(SelectionCosts, MomentsSendTwoSmallSums) {
  Graph graph;
  const auto [mean, variance] = Moments(Logits(graph), {kLength});
  // Twice six floats, of which each rank sends 2 * 3/4.
  EXPECT_EQ(CostsOf(graph, mean * variance), "all_reduce x 2x 72\n");
}

TEST(SelectionCosts, AnElementOfARankSendsTheCandidates) {
  Graph graph;
  // Three values and three indices of six rows, to three ranks.
  EXPECT_EQ(CostsOf(graph, NthSmallest(Logits(graph), "length", 2)),
            "all_gather x 2x 432\n");
}

TEST(SelectionCosts, ASampleSendsOneCandidateOfEachShard) {
  Graph graph;
  EXPECT_EQ(CostsOf(graph, RandomCategorical(Logits(graph), "length")),
            "all_gather x 2x 144\n");
}

TEST(SelectionCosts, TopKSendsThatManyCandidates) {
  Graph graph;
  const CategoricalOptions options{.top_k = 2, .top_p = 0.9};
  EXPECT_EQ(CostsOf(graph, RandomCategorical(Logits(graph), "length", options)),
            "all_gather x 2x 288\n");
}

TEST(SelectionCosts, BoolsAreReducedIn16Bits) {
  Graph graph;
  const Tensor any = ReduceAny(Less(Logits(graph), 0.0), {kBatch});
  EXPECT_EQ(CostsOf(graph, any), "all_reduce x 1x 18\n");
}

// A gather of the dimension is 16 rows of six floats to three ranks.
constexpr int64_t kGathered = 16 * 6 * 4 * 3;

TEST(SelectionCosts, ASortGathersItsDimensionOnce) {
  Graph graph;
  const Tensor sorted = Sort(Logits(graph), "length");
  const int64_t bytes = BytesOf(graph, ReduceSum(sorted, {kBatch}));
  EXPECT_GE(bytes, kGathered);
  // And at most the sum of six floats.
  EXPECT_LE(bytes, kGathered + 36);
}

TEST(SelectionCosts, PartsSendTheRowsThatChangeRanks) {
  Graph graph;
  const std::vector<Tensor> halves = Split(Logits(graph), "length", 2);
  const Tensor product = ReduceSum(halves[0] * halves[1], {});
  EXPECT_LT(BytesOf(graph, product), kGathered);
}

TEST(SelectionCosts, TheFirstElementIsSentAlone) {
  Graph graph;
  const Tensor first = ReduceFirst(Logits(graph), {kBatch});
  // Six floats to three ranks.
  EXPECT_LE(BytesOf(graph, first), 6 * 4 * 3);
}

}  // namespace
}  // namespace mtf::testing
