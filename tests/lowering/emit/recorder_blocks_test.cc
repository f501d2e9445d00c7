// SPDX-License-Identifier: Apache-2.0
//
// What a scan or a top_k along a sharded dimension sends, and when gathering
// the dimension sends less.
#include <string>

#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/scan.h"
#include "ops/top_k.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/program_text.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Dimension kBatch{"batch", 6}, kLength{"length", 64};

// The text of a fetched value up to the collectives.
std::string Lowered(Graph& graph, Tensor fetch, const std::string& mesh,
                    const std::string& layout) {
  ProgramDetail detail{};
  const absl::StatusOr<Program> program =
      LowerText(graph, mesh, layout, {.fetches = {fetch}},
                {.last_pass = "expand_reshards"});
  if (!program.ok()) return ErrorText(program.status());
  return absl::StrCat("\n", TextOf(*program, detail));
}

std::string CostsOf(Graph& graph, Tensor fetch, const std::string& mesh,
                    const std::string& layout) {
  return Costs(LowerText(graph, mesh, layout, {.fetches = {fetch}}));
}

TEST(RecorderBlocks, AScanSendsATotalForEachShard) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kLength});
  const Tensor y = ReduceSum(CumulativeSum(x, "length"), {kBatch});
  EXPECT_EQ(Lowered(graph, y, "x:4", "length:x"), R"(
mesh{x:4}
%x : f32[batch:6, length:64/x] = input x
%cumulative_sum : f32[batch:6, length:4/x] = reduce_blocks(%x) sum length
%cumulative_sum_1 : f32[batch:6, length:4] = all_gather(%cumulative_sum) length over{x}
%cumulative_sum_2 : f32[batch:6, length:4] = scan(%cumulative_sum_1) sum length exclusive
%cumulative_sum_2_1 : f32[batch:6, length:4/x] = all_slice(%cumulative_sum_2) length over{x}
%cumulative_sum_3 : f32[batch:6, length:64/x] = scan(%x, %cumulative_sum_2_1) sum length
%reduce_sum : f32[batch:6] unreduced{x} = reduce(%cumulative_sum_3) sum
%reduce_sum_1 : f32[batch:6] = all_reduce(%reduce_sum) sum over{x}
output(%reduce_sum_1) reduce_sum
)");
  // One float per row, six rows, from each of the three other ranks.
  EXPECT_THAT(CostsOf(graph, y, "x:4", "length:x"),
              HasSubstr("all_gather x 1x 72\n"));
}

TEST(RecorderBlocks, AScanOfAnUnshardedDimensionSendsNothing) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kLength});
  const Tensor y = ReduceSum(CumulativeSum(x, "length"), {kBatch, kLength});
  const std::string text = Lowered(graph, y, "x:2", "batch:x");
  EXPECT_THAT(text, HasSubstr("scan(%x) sum length\n"));
  EXPECT_THAT(text, Not(HasSubstr("reduce_blocks")));
}

TEST(RecorderBlocks, ADimensionOfOneElementPerShardIsGathered) {
  Graph graph;
  const Dimension few{"length", 4};
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, few});
  const std::string text =
      Lowered(graph, CumulativeSum(x, "length"), "x:4", "length:x");
  EXPECT_THAT(text, HasSubstr("all_gather(%x) length over{x}"));
  EXPECT_THAT(text, Not(HasSubstr("reduce_blocks")));
}

TEST(RecorderBlocks, TotalsOf16BitFloatsAreSentInF32) {
  Graph graph;
  const Tensor x = Input(graph, "x", kBFloat16, {kBatch, kLength});
  const Tensor y = CumulativeMax(x, "length", {.reverse = true});
  const std::string text = Lowered(graph, y, "x:2", "length:x");
  EXPECT_THAT(text, HasSubstr("f32[batch:6, length:2/x] = reduce_blocks(%x) "
                              "max length\n"));
  EXPECT_THAT(text, HasSubstr("max length exclusive reverse\n"));
}

TEST(RecorderBlocks, BlocksAreTheFinestShardsOfTheProgram) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kLength});
  // The [optimizer] section may shard the dimension over both axes.
  EXPECT_THAT(Lowered(graph, CumulativeSum(x, "length"), "x:2,y:2",
                      "length:x [optimizer] length:x+y"),
              HasSubstr("f32[batch:6, length:4/x] = reduce_blocks(%x) sum "
                        "length\n"));
}

TEST(RecorderBlocks, TopKSendsTheGreatestOfEachShard) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kLength});
  const Tensor y = TopK(x, "length", {"k", 2}).indices;
  EXPECT_EQ(Lowered(graph, y, "x:4", "length:x"), R"(
mesh{x:4}
%x : f32[batch:6, length:64/x] = input x
%top_k : f32[batch:6, length:4/x, k:2], %top_k_1 : i32[batch:6, length:4/x, k:2] = top_k(%x) length
%top_k_2 : f32[batch:6, length:4, k:2] = all_gather(%top_k) length over{x}
%top_k_3 : f32[batch:6, length:8] = reshape(%top_k_2)
%top_k_1_1 : i32[batch:6, length:4, k:2] = all_gather(%top_k_1) length over{x}
%top_k_4 : i32[batch:6, length:8] = reshape(%top_k_1_1)
%top_k_5 : i32[batch:6, k:2] = top_k(%top_k_3, %top_k_4) length
output(%top_k_5) top_k.indices
)");
  // Two indices and two values per row, six rows, from each of three ranks.
  EXPECT_THAT(CostsOf(graph, y, "x:4", "length:x"),
              HasSubstr("all_gather x 2x 288\n"));
}

TEST(RecorderBlocks, TopKOfMostElementsGathersTheDimension) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kLength});
  const Tensor y = TopK(x, "length", {"k", 9}).indices;
  EXPECT_THAT(Lowered(graph, y, "x:4", "length:x"),
              HasSubstr("all_gather(%x) length over{x}"));
}

TEST(RecorderBlocks, ValuesOfATopKAreSentWithTheirIndices) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kLength});
  const TopKResult top = BottomK(x, "length", {"k", 2});
  const Tensor both = top.values + Cast(top.indices, kFloat32);
  const std::string text = Lowered(graph, both, "x:4", "length:x");
  EXPECT_THAT(text, HasSubstr("%bottom_k_5 : f32[batch:6, k:2], %bottom_k_6 : "
                              "i32[batch:6, k:2] = top_k(%bottom_k_3, "
                              "%bottom_k_4) length least\n"));
  // No more than the indices alone.
  EXPECT_EQ(CostsOf(graph, both, "x:4", "length:x"), "all_gather x 2x 288\n");
}

TEST(RecorderBlocks, TheBatchMayBeShardedOverAnotherAxis) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kLength, kBatch});
  const std::string text = Lowered(graph, TopK(x, "length", {"k", 1}).indices,
                                   "x:2,y:3", "length:x, batch:y, k:x");
  EXPECT_THAT(text, HasSubstr("[batch:6/y, length:2/x, k:1]"));
  EXPECT_THAT(text, HasSubstr("i32[batch:6/y, k:1] = top_k("));
}

}  // namespace
}  // namespace mtf::testing
