// SPDX-License-Identifier: Apache-2.0
//
// Collectives are minimal: which collectives an expression needs under a
// layout, how often, with how many bytes.
#include <string>
#include <vector>

#include "lowering/program/print_program.h"
#include "nn/layers/dense.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/pad.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/slice.h"
#include "ops/variable.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

const Dimension kBatch{"batch", 8}, kHidden{"hidden", 16}, kOut{"out", 4};

// Two products that sum over "hidden".
struct Products {
  Graph graph;
  Tensor x = Input(graph, "x", kFloat32, {kBatch, kHidden});
  Tensor v = Input(graph, "v", kFloat32, {kHidden, kOut});
  Tensor w = Input(graph, "w", kFloat32, {kHidden, kOut});
  Tensor y = Einsum({x, v}, {kBatch, kOut});
  Tensor z = Einsum({x, w}, {kBatch, kOut});

  std::string CostsOf(Tensor fetch, absl::string_view layout) {
    return Costs(LowerText(graph, "data:2,model:4", layout,
                           {.fetches = {fetch}, .fetch_shards = true}));
  }
};

TEST(Collectives, MatmulOverShardedDimensionIsOneAllReduce) {
  Products p;
  // 2 (n-1)/n of 8 x 4 floats.
  EXPECT_EQ(p.CostsOf(p.y, "hidden:model"), "all_reduce model 1x 192\n");
}

TEST(Collectives, MatmulOverReplicatedDimensionIsNone) {
  Products p;
  EXPECT_EQ(p.CostsOf(p.y, "batch:data, out:model"), "");
}

TEST(Collectives, SumsThatAreUsedTwiceAreReducedOnce) {
  Products p;
  EXPECT_EQ(p.CostsOf(p.y + p.z + p.y, "hidden:model"),
            "all_reduce model 1x 192\n");
  EXPECT_EQ(p.CostsOf((p.y - p.z) * 0.5 - (p.z + p.y), "hidden:model"),
            "all_reduce model 1x 192\n");
  const Tensor bias = Input(p.graph, "bias", kFloat32, {kBatch, kOut});
  EXPECT_EQ(p.CostsOf(bias - p.y + p.z - p.y, "hidden:model"),
            "all_reduce model 1x 192\n");
  // One is needed by itself: both are reduced, in one call.
  EXPECT_EQ(p.CostsOf(p.y + p.z + Relu(p.y), "hidden:model"),
            "all_reduce model 1x 384\n");
}

TEST(Collectives, BatchAndSumShardedOverTwoAxesReduceOneShard) {
  Products p;
  EXPECT_EQ(p.CostsOf(p.y, "batch:data, hidden:model"),
            "all_reduce model 1x 96\n");
}

TEST(Collectives, ReaderOfAShardedSumGetsOneReduceScatter) {
  Products p;
  const Tensor sharded = Relu(Rename(p.y, "out", "vocab"));
  EXPECT_EQ(p.CostsOf(sharded, "hidden:model, vocab:model"),
            "reduce_scatter model 1x 96\n");
}

TEST(Collectives, UnreducedSumPassesLinearOperations) {
  struct Case {
    const char* name;
    Tensor (*make)(Products&);
    const char* costs;
  };
  const Case kCases[] = {
      {"sum", [](Products& p) { return p.y + p.z; },
       "all_reduce model 1x 192\n"},
      {"difference", [](Products& p) { return p.y - p.z; },
       "all_reduce model 1x 192\n"},
      {"scaled sum", [](Products& p) { return 0.5 * p.y - p.z / 3.0; },
       "all_reduce model 1x 192\n"},
      {"sum with a replicated value in between",
       [](Products& p) {
         return p.y + Input(p.graph, "u", kFloat32, {kBatch, kOut}) + p.z;
       },
       "all_reduce model 1x 192\n"},
      {"sum with the sum of another",
       [](Products& p) { return p.y + ReduceSum(p.v, {}); },
       "all_reduce model 1x 192\n"},
      {"transpose",
       [](Products& p) {
         return Transpose(p.y, {kOut, kBatch}) + p.z;
       },
       "all_reduce model 1x 192\n"},
      {"slices",
       [](Products& p) {
         return Slice(p.y, "out", 0, 1) - Slice(p.z, "out", 3, 1);
       },
       "all_reduce model 1x 48\n"},
      {"rename",
       [](Products& p) {
         return Rename(p.y, "out", "o2") - Rename(p.z, "out", "o2");
       },
       "all_reduce model 1x 192\n"},
      {"merge",
       [](Products& p) {
         return -MergeDimensions(p.y, {"batch", "out"}, "all");
       },
       "all_reduce model 1x 192\n"},
      {"pad with zeros", [](Products& p) { return Pad(p.y, "out", 0, 1, 0); },
       "all_reduce model 1x 240\n"},
      {"concat",
       [](Products& p) {
         return Concat({p.y, p.z}, "out");
       },
       "all_reduce model 1x 384\n"},
      {"sum over what is left",
       [](Products& p) { return ReduceSum(p.y, {kOut}); },
       "all_reduce model 1x 24\n"},
      {"mean over what is left",
       [](Products& p) { return ReduceMean(p.y, {kOut}); },
       "all_reduce model 1x 24\n"},
  };
  for (const Case& c : kCases) {
    Products p;
    EXPECT_EQ(p.CostsOf(c.make(p), "hidden:model"), c.costs) << c.name;
  }
}

TEST(Collectives, UnreducedSumIsReducedBeforeNonlinearOperations) {
  struct Case {
    const char* name;
    Tensor (*make)(Products&);
    const char* costs;
  };
  const Case kCases[] = {
      {"function", [](Products& p) { return Relu(p.y); },
       "all_reduce model 1x 192\n"},
      // Both are computed before either is read: one call for two reductions.
      {"product", [](Products& p) { return p.y * p.z; },
       "all_reduce model 1x 384\n"},
      {"maximum", [](Products& p) { return ReduceMax(p.y, {kOut}); },
       "all_reduce model 1x 192\n"},
      {"broadcast",
       [](Products& p) {
         return Broadcast(p.y, {{"c", 9}, kBatch, kOut});
       },
       "all_reduce model 1x 192\n"},
  };
  for (const Case& c : kCases) {
    Products p;
    EXPECT_EQ(p.CostsOf(c.make(p), "hidden:model"), c.costs) << c.name;
  }
}

// A reduction is sent in the dtype of its summands, whatever reads it: 16-bit
// gradients and activations take two bytes on the wire. (Communicators add them
// in f32 and round once.)
TEST(Collectives, WideningCastIsReducedInTheDTypeOfTheSummands) {
  Graph graph;
  const Tensor x = Input(graph, "x", kBFloat16, {kBatch, kHidden});
  const Tensor v = Input(graph, "v", kBFloat16, {kHidden, kOut});
  const Tensor y = Einsum({x, v}, {kBatch, kOut});
  const auto costs_of = [&](Tensor fetch) {
    return Costs(LowerText(graph, "model:4", "hidden:model",
                           {.fetches = {fetch}, .fetch_shards = true}));
  };
  EXPECT_EQ(costs_of(y), "all_reduce model 1x 96\n");
  EXPECT_EQ(costs_of(Cast(y, kFloat32)), "all_reduce model 1x 96\n");
}

TEST(Collectives, MaximumOverShardedDimensionIsOneAllReduce) {
  Products p;
  EXPECT_EQ(p.CostsOf(ReduceMax(p.x, {kBatch}), "hidden:model"),
            "all_reduce model 1x 48\n");
}

TEST(Collectives, FetchIsGatheredUnlessShardsAreFetched) {
  Products p;
  const std::string layout = "batch:data, out:model";
  EXPECT_EQ(p.CostsOf(p.y, layout), "");
  EXPECT_EQ(
      Costs(LowerText(p.graph, "data:2,model:4", layout, {.fetches = {p.y}})),
      // 4 rows of 1 float to the other, then 8 of them to three others.
      "all_gather data 1x 16\nall_gather model 1x 96\n");
}

TEST(Collectives, GradientOfAWeightUsedTwiceIsReducedOnce) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kHidden});
  const Tensor w =
      Variable(graph, "w", Zeros(graph, kFloat32, {kHidden, kOut}));
  const Tensor once = Einsum({x, w}, {kBatch, kOut});
  const Tensor twice = Einsum({Tanh(x), w}, {kBatch, kOut});
  const Tensor loss = ReduceMean(Square(once * twice), {});
  const Tensor gradient = Gradients(loss, {w})[0];
  const auto program =
      LowerText(graph, "data:4", "batch:data", {.fetches = {gradient}});
  EXPECT_EQ(Costs(program), "all_reduce data 1x 384\n");
  // Two products, added before the reduction.
  ASSERT_OK(program);
  EXPECT_THAT(PrintProgram(*program),
              HasSubstr(" = map(%einsum_1_grad_1, %einsum_grad_1) add\n"));
}

// Attention and feed-forward under Megatron's layout, forward and backward.
TEST(Collectives, MegatronBlockIsTwoAllReducesForwardAndTwoBackward) {
  Graph graph;
  const Dimension batch{"batch", 2}, length{"length", 4}, model{"d_model", 8},
      heads{"heads", 4}, d_kv{"d_kv", 2}, d_ff{"d_ff", 32};
  const Tensor in = Input(graph, "in", kFloat32, {batch, length, model});
  const Tensor dout = Input(graph, "dout", kFloat32, {batch, length, model});
  Tensor x =
      in + nn::SelfAttention(nn::LayerNorm(in, model),
                             {.length = length, .heads = heads, .d_kv = d_kv});
  x = x + nn::FeedForward(nn::LayerNorm(x, model), d_ff, Gelu);
  std::vector<Tensor> wanted = {in};
  for (const VariableInfo& variable : graph.variables()) {
    wanted.push_back(variable.read);
  }
  std::vector<Tensor> all = Gradients(x, wanted, dout);
  all.push_back(x);
  ASSERT_OK(graph.status());
  const std::string layout = "heads:model, d_ff:model";
  // Each of them 2 (n-1)/n of 2 x 4 x 8 floats.
  EXPECT_EQ(Costs(LowerText(graph, "model:4", layout, {.fetches = {x}})),
            "all_reduce model 2x 768\n");
  EXPECT_EQ(Costs(LowerText(graph, "model:4", layout,
                            {.fetches = all, .fetch_shards = true})),
            "all_reduce model 4x 1536\n");
}

}  // namespace
}  // namespace mtf::testing
