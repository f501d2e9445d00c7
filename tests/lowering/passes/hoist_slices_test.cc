// SPDX-License-Identifier: Apache-2.0
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reshape.h"
#include "ops/variable.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

constexpr char kPass[] = "hoist_slices";

// The bias lacks the sharded dimension; the reduction is sliced before it.
TEST(HoistSlices, MovesAcrossAMapToAnAllReduce) {
  EXPECT_EQ(AfterPass(kPass, R"(
mesh{model:2}
%x : f32[l:8, f:16/model] = input x
%v : f32[f:16/model, d:4] = input v
%bias : f32[d:4] = input bias
%y : f32[l:8, d:4] unreduced{model} = einsum(%x, %v) sum{f}
%y.sum : f32[l:8, d:4] = all_reduce(%y) sum over{model}
%z : f32[l:8, d:4] = map(%y.sum, %bias) add
%shard : f32[l:8/model, d:4] = all_slice(%z) l over{model}
output(%shard) z
)"),
            R"(
mesh{model:2}
%x : f32[l:8, f:16/model] = input x
%v : f32[f:16/model, d:4] = input v
%bias : f32[d:4] = input bias
%y : f32[l:8, d:4] unreduced{model} = einsum(%x, %v) sum{f}
%y.sum : f32[l:8, d:4] = all_reduce(%y) sum over{model}
%y.sum_1 : f32[l:8/model, d:4] = all_slice(%y.sum) l over{model}
%shard : f32[l:8/model, d:4] = map(%y.sum_1, %bias) add
output(%shard) z
)");
}

// Across a cast and a rename; other operands with the dimension are sliced too.
TEST(HoistSlices, MovesAcrossRenamesAndSlicesOtherOperands) {
  EXPECT_EQ(AfterPasses({kPass, "fuse_reduce_scatters"}, R"(
mesh{model:2}
%x : f32[l:8, f:16/model] = input x
%v : f32[f:16/model, d:4] = input v
%s : f32[l:8, d:4] = input s
%y : f32[l:8, d:4] unreduced{model} = einsum(%x, %v) sum{f}
%y.sum : f32[l:8, d:4] = all_reduce(%y) sum over{model}
%z : f32[l:8, d:4] = map(%s, %y.sum) mul
%w : bf16[l:8, d:4] = map(%z) [cast.bf16($0)]
%u : bf16[l:8, d:4] = reshape(%w)
%shard : bf16[l:8/model, d:4] = all_slice(%u) l over{model}
output(%shard) z
)"),
            R"(
mesh{model:2}
%x : f32[l:8, f:16/model] = input x
%v : f32[f:16/model, d:4] = input v
%s : f32[l:8, d:4] = input s
%y : f32[l:8, d:4] unreduced{model} = einsum(%x, %v) sum{f}
%s_1 : f32[l:8/model, d:4] = all_slice(%s) l over{model}
%y.sum_1 : f32[l:8/model, d:4] = reduce_scatter(%y) sum l over{model}
%z : f32[l:8/model, d:4] = map(%s_1, %y.sum_1) mul
%w : bf16[l:8/model, d:4] = map(%z) [cast.bf16($0)]
%shard : bf16[l:8/model, d:4] = reshape(%w)
output(%shard) z
)");
}

TEST(HoistSlices, SliceWithoutAnAllReduceIsUnchanged) {
  ExpectUnchanged(kPass, R"(
mesh{model:2}
%x : f32[l:8, d:4] = input x
%z : f32[l:8, d:4] = map(%x) relu
%shard : f32[l:8/model, d:4] = all_slice(%z) l over{model}
output(%shard) z
)");
}

TEST(HoistSlices, AllReduceOverOtherAxesDoesNotCount) {
  ExpectUnchanged(kPass, R"(
mesh{data:2, model:2}
%x : f32[l:8, f:16/data] = input x
%y : f32[l:8] unreduced{data} = reduce(%x) sum
%y.sum : f32[l:8] = all_reduce(%y) sum over{data}
%z : f32[l:8] = map(%y.sum) relu
%shard : f32[l:8/model] = all_slice(%z) l over{model}
output(%shard) z
)");
}

TEST(HoistSlices, AllReduceWithASecondReaderStaysReplicated) {
  ExpectUnchanged(kPass, R"(
mesh{model:2}
%x : f32[l:8, f:16/model] = input x
%y : f32[l:8] unreduced{model} = reduce(%x) sum
%y.sum : f32[l:8] = all_reduce(%y) sum over{model}
%z : f32[l:8] = map(%y.sum) relu
%shard : f32[l:8/model] = all_slice(%z) l over{model}
output(%shard) z
output(%y.sum) y
)");
}

TEST(HoistSlices, MapWithASecondReaderStaysReplicated) {
  ExpectUnchanged(kPass, R"(
mesh{model:2}
%x : f32[l:8, f:16/model] = input x
%y : f32[l:8] unreduced{model} = reduce(%x) sum
%y.sum : f32[l:8] = all_reduce(%y) sum over{model}
%z : f32[l:8] = map(%y.sum) relu
%shard : f32[l:8/model] = all_slice(%z) l over{model}
output(%shard) z
output(%z) y
)");
}

// The shards of a reshape that is not a rename hold other rows.
TEST(HoistSlices, MergeOfDimensionsStopsTheSlice) {
  ExpectUnchanged(kPass, R"(
mesh{model:2}
%x : f32[l:8, f:16/model] = input x
%y : f32[l:8] unreduced{model} = reduce(%x) sum
%y.sum : f32[l:8] = all_reduce(%y) sum over{model}
%z : f32[a:4, l:2] = reshape(%y.sum)
%shard : f32[a:4/model, l:2] = all_slice(%z) a over{model}
output(%shard) z
)");
}

// The sequence parallel block with a bias before the length is sharded.
TEST(HoistSlices, BiasBeforeTheSliceCostsNothing) {
  Graph graph;
  const Dimension inner_length{"inner_length", 16}, d_ff{"d_ff", 32},
      d_model{"d_model", 8};
  const Tensor h = Input(graph, "h", kFloat32, {inner_length, d_ff});
  const Tensor w = Input(graph, "w", kFloat32, {d_ff, d_model});
  const Tensor bias = Input(graph, "bias", kFloat32, {d_model});
  const Tensor y = Einsum({h, w}, {inner_length, d_model});
  for (const bool biased : {false, true}) {
    const Tensor z =
        Rename(biased ? y + bias : y, "inner_length", "length") * 2.0;
    EXPECT_EQ(Costs(LowerText(graph, "model:4", "d_ff:model, length:model",
                              {.fetches = {z}, .fetch_shards = true})),
              "reduce_scatter model 1x 384\n");
  }
}

}  // namespace
}  // namespace mtf::testing
