// SPDX-License-Identifier: Apache-2.0
//
// Lookups in a table whose rows are sharded over the mesh axis that shards the
// indices.
#include <string>
#include <vector>

#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "tests/lowering/lower_test_util.h"

namespace mtf::testing {
namespace {

std::string LookupCosts(int64_t vocab, int64_t batch, int64_t d,
                        bool gradient) {
  Graph graph;
  const Tensor table =
      Input(graph, "table", kFloat32, {{"vocab", vocab}, {"d", d}});
  const Tensor ids = Input(graph, "ids", kInt32, {{"batch", batch}});
  const Tensor rows = Gather(table, ids, "vocab");
  Tensor fetch = rows;
  if (gradient) {
    const Tensor dy =
        Input(graph, "dy", kFloat32, {{"batch", batch}, {"d", d}});
    fetch = Gradients(ReduceSum(rows * dy, {}), {table})[0];
  }
  return Costs(LowerText(graph, "x:4", "batch:x, vocab:x",
                         {.fetches = {fetch}, .fetch_shards = true}));
}

// By rank, with f32 and i32: the indices take 16 / 4 * 4 = 16 bytes, the rows
// 16 * 5 * 4 = 320, the table 1024 * 5 * 4 / 4 = 5120. "d" does not divide.
TEST(Lookup, GathersTheIndicesOfALargeTable) {
  EXPECT_EQ(LookupCosts(1024, 16, 5, false),
            "all_gather x 1x 48\n"        // 3 * 16
            "reduce_scatter x 1x 240\n");  // 3/4 * 320
}

// The table takes 8 * 5 * 4 / 4 = 40 bytes on each rank.
TEST(Lookup, GathersASmallTable) {
  EXPECT_EQ(LookupCosts(8, 1024, 5, false), "all_gather x 1x 120\n");
}

// The table takes 64 * 8 * 4 / 4 = 512 bytes on each rank and the rows as much.
// To gather the table would take 1536 bytes, to reduce the rows 192 + 1536.
TEST(Lookup, MovesTheShardsOfATableToItsOtherDimension) {
  EXPECT_EQ(LookupCosts(64, 64, 8, false),
            "all_gather x 1x 192\n"    // the indices, 3 * 64
            "all_to_all x 2x 768\n");  // table and rows, 3/4 * 512 each
}

// The gradient of a small table is added up on each rank and scattered: 3/4 of
// 8 * 5 * 4.
TEST(Lookup, TheGradientOfASmallTableIsScattered) {
  EXPECT_EQ(LookupCosts(8, 1024, 5, true), "reduce_scatter x 1x 120\n");
}

// The rows of a large table are gathered, 3 * 16 / 4 * 5 * 4 bytes, with the
// indices.
TEST(Lookup, TheGradientOfALargeTableGathersItsRows) {
  EXPECT_EQ(LookupCosts(1024, 16, 5, true), "all_gather x 2x 288\n");
}

TEST(Lookup, TheGradientOfATableMovesToItsOtherDimension) {
  EXPECT_EQ(LookupCosts(64, 64, 8, true),
            "all_gather x 1x 192\n"
            "all_to_all x 2x 768\n");
}

// With the axes on different dimensions nothing changes: each rank looks up
// what it holds, and the rows are reduced.
TEST(Lookup, OtherAxesNeedNoMove) {
  Graph graph;
  const Tensor table =
      Input(graph, "table", kFloat32, {{"vocab", 16}, {"d", 4}});
  const Tensor ids = Input(graph, "ids", kInt32, {{"batch", 8}});
  EXPECT_EQ(Costs(LowerText(graph, "x:2,y:2", "batch:x, vocab:y",
                            {.fetches = {Gather(table, ids, "vocab")},
                             .fetch_shards = true})),
            "all_reduce y 1x 64\n");
}

}  // namespace
}  // namespace mtf::testing
