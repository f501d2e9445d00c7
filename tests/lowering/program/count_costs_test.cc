// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/count_costs.h"

#include <string>
#include <vector>

#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/pass_test.h"
#include "tests/program_text.h"

namespace mtf::testing {
namespace {

const Dimension kBatch{"batch", 7}, kIo{"io", 4}, kHidden{"hidden", 10};

TEST(CountCosts, EveryCollectiveIsTracedToTheUsersLine) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kIo});
  const Tensor w = Input(graph, "w", kFloat32, {kIo, kHidden});
  const Tensor v = Input(graph, "v", kFloat32, {kHidden, kIo});
  const Tensor h = Relu(Einsum({x, w}, {kBatch, kHidden}));
  const int line = __LINE__ + 1;
  const Tensor y = Einsum({h, v}, {kBatch, kIo});
  const auto program =
      LowerText(graph, "rows:2,cols:3", "batch:rows, hidden:cols",
                {.fetches = {y}, .fetch_shards = true});
  ASSERT_OK(program);
  const std::vector<CollectiveCost> costs = ListCollectives(*program);
  ASSERT_EQ(costs.size(), 1u);
  EXPECT_EQ(costs[0].kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(costs[0].axes, AxisList({1}));
  EXPECT_EQ(costs[0].group_size, 3);
  // 2 (n-1)/n of 4 rows, one of which is padding on half of the devices.
  EXPECT_EQ(costs[0].bytes, 2 * 2 * (4 * 4 * 4) / 3 + 1);  // rounded up
  EXPECT_EQ(costs[0].tensor, "einsum_1");
  EXPECT_EQ(costs[0].dimension, "hidden");
  EXPECT_EQ(costs[0].rule, "hidden:cols");
  EXPECT_EQ(costs[0].rule_origin, "--layout, rule 2 of 2, characters 13-23");
  EXPECT_EQ(costs[0].operation, "einsum_1");
  EXPECT_EQ(program->instructions[costs[0].instruction].opcode,
            Opcode::kAllReduce);
  EXPECT_EQ(costs[0].site.file, "count_costs_test.cc");
  EXPECT_EQ(costs[0].site.line, line);
}

// The order of the axes in a dimension is the order of its shards. The ranks of
// a group are the same in every order.
TEST(CountCosts, AGroupOfAxesHasOneName) {
  const auto program = ParseText(R"(
mesh{a:2, b:2}
%x : f32[i:8/b+a] = input x
%y : f32[i:8/a+b] = input y
%x.all : f32[i:8] = all_gather(%x) i over{b, a}
%y.all : f32[i:8] = all_gather(%y) i over{a, b}
output(%x.all) x
output(%y.all) y
)");
  ASSERT_OK(program);
  const std::vector<CollectiveCost> costs = ListCollectives(*program);
  ASSERT_EQ(costs.size(), 2u);
  for (const CollectiveCost& cost : costs) {
    EXPECT_EQ(program->mesh.AxisNames(cost.axes), "a+b");
  }
}

TEST(CountCosts, WithoutShardingNothingIsSent) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kHidden});
  for (const char* mesh : {"", "rows:1", "rows:2"}) {
    const auto program = LowerText(graph, mesh, "", {.fetches = {x}});
    ASSERT_OK(program);
    EXPECT_TRUE(ListCollectives(*program).empty());
  }
}

TEST(CountCosts, SlicesMoveNothing) {
  const auto program = ParseText(R"(
mesh{x:4}
%a : f32[b:8] = input a
%r : f32[b:8] = map(%a) relu
%c : f32[b:8/x] = all_slice(%r) b over{x}
output(%c) c
)");
  ASSERT_OK(program);
  EXPECT_TRUE(ListCollectives(*program).empty());
  EXPECT_TRUE(CountCollectives(*program).empty());
}

// Each formula of layouts/reshard_path.h once, over n = 4 ranks, for what one
// rank has in memory before.
TEST(CountCosts, BytesAreThoseOfRingAlgorithms) {
  const auto program = ParseText(R"(
mesh{x:4, y:4}
%a : f32[b:16/x, c:16] = input a
%p : f32[c:16] unreduced{x} = reduce(%a) sum
%p.sum : f32[c:16] = all_reduce(%p) sum over{x}
%q : f32[c:16] unreduced{x} = reduce(%a) sum
%q.shard : f32[c:16/x] = reduce_scatter(%q) sum c over{x}
%g : f32[b:16, c:16] = all_gather(%a) b over{x}
%t : f32[b:16, c:16/x] = all_to_all(%a) b to c over{x}
%m : f32[b:16/y, c:16] = collective_permute(%a) over{x, y}
output(%p.sum) p
)");
  ASSERT_OK(program);
  EXPECT_EQ(Costs(program),
            "all_reduce x 1x 96\n"               // 2 3/4 of 16 floats
            "all_gather x 1x 768\n"              // 3 times 4 x 16 floats
            "reduce_scatter x 1x 48\n"           // 3/4 of 16 floats
            "all_to_all x 1x 192\n"              // 3/4 of 4 x 16 floats
            "collective_permute x+y 1x 256\n");  // 4 x 16 floats
}

TEST(CountCosts, ManySumsOfOneCallAreCountedTogether) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kIo});
  std::vector<Tensor> variables;
  Tensor y = x;
  for (int i = 0; i < 3; ++i) {
    variables.push_back(
        Variable(graph, absl::StrCat("w", i), Zeros(graph, kFloat32, {kIo})));
    y = Tanh(y * variables.back());
  }
  const auto program =
      LowerText(graph, "rows:2", "batch:rows",
                {.fetches = Gradients(ReduceSum(y, {}), variables)});
  ASSERT_OK(program);
  const std::vector<CollectiveCost> costs = ListCollectives(*program);
  ASSERT_EQ(costs.size(), 1u);
  EXPECT_EQ(costs[0].bytes, 3 * 4 * 4);
  EXPECT_THAT(costs[0].tensor, ::testing::EndsWith(" and 2 more"));
  EXPECT_EQ(costs[0].dimension, "batch");
}

}  // namespace
}  // namespace mtf::testing
