// SPDX-License-Identifier: Apache-2.0
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

TEST(ExpandReshards, ShardedSumBecomesOneAllReduce) {
  EXPECT_EQ(AfterPass("expand_reshards", R"(
mesh{model:4}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = reshard(%y)
output(%y.sum) s
)"),
            R"(
mesh{model:4}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = all_reduce(%y) sum over{model}
output(%y.sum) s
)");
}

TEST(ExpandReshards, SumOverTwoAxesIsOneAllReduce) {
  EXPECT_EQ(AfterPass("expand_reshards", R"(
mesh{data:2, model:2}
%x : f32[b:8/data, h:16/model] = input x
%y : f32[] unreduced{data, model} = reduce(%x) sum
%y.sum : f32[] = reshard(%y)
output(%y.sum) s
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8/data, h:16/model] = input x
%y : f32[] unreduced{data, model} = reduce(%x) sum
%y.sum : f32[] = all_reduce(%y) sum over{data, model}
output(%y.sum) s
)");
}

TEST(ExpandReshards, MaximumIsReducedAsAMaximum) {
  EXPECT_EQ(AfterPass("expand_reshards", R"(
mesh{model:4}
%x : f32[b:8, h:16/model] = input x
%m : f32[b:8] unreduced{model} max = reduce(%x) max
%all : f32[b:8] = reshard(%m)
output(%all) m
)"),
            R"(
mesh{model:4}
%x : f32[b:8, h:16/model] = input x
%m : f32[b:8] unreduced{model} max = reduce(%x) max
%all : f32[b:8] = all_reduce(%m) max over{model}
output(%all) m
)");
}

TEST(ExpandReshards, SumIntoAShardedLayoutIsOneReduceScatter) {
  EXPECT_EQ(AfterPass("expand_reshards", R"(
mesh{model:4}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%c : f32[b:8, o:4/model] = reshard(%y)
output(%c) s
)"),
            R"(
mesh{model:4}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%c : f32[b:8, o:4/model] = reduce_scatter(%y) sum o over{model}
output(%c) s
)");
}

TEST(ExpandReshards, ShardedToReplicatedIsOneAllGather) {
  EXPECT_EQ(AfterPass("expand_reshards", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/data] = input x
%full : f32[b:8, h:16] = reshard(%x)
output(%full) s
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/data] = input x
%full : f32[b:8, h:16] = all_gather(%x) h over{data}
output(%full) s
)");
}

TEST(ExpandReshards, AxesOfOneDimensionAreGatheredTogether) {
  EXPECT_EQ(AfterPass("expand_reshards", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/data+model] = input x
%full : f32[b:8, h:16] = reshard(%x)
output(%full) s
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/data+model] = input x
%full : f32[b:8, h:16] = all_gather(%x) h over{data, model}
output(%full) s
)");
}

TEST(ExpandReshards, OnlyRemovedAxesAreGathered) {
  EXPECT_EQ(AfterPass("expand_reshards", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/data+model] = input x
%less : f32[b:8, h:16/data] = reshard(%x)
output(%less) s
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/data+model] = input x
%less : f32[b:8, h:16/data] = all_gather(%x) h over{model}
output(%less) s
)");
}

TEST(ExpandReshards, ReplicatedToShardedIsOneAllSlice) {
  EXPECT_EQ(AfterPass("expand_reshards", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16] = input x
%shard : f32[b:8, h:16/data] = reshard(%x)
output(%shard) s
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16] = input x
%shard : f32[b:8, h:16/data] = all_slice(%x) h over{data}
output(%shard) s
)");
}

TEST(ExpandReshards, AxisThatChangesItsDimensionIsOneAllToAll) {
  EXPECT_EQ(AfterPass("expand_reshards", R"(
mesh{model:4}
%x : f32[b:8, h:16/model] = input x
%turned : f32[b:8/model, h:16] = reshard(%x)
output(%turned) s
)"),
            R"(
mesh{model:4}
%x : f32[b:8, h:16/model] = input x
%turned : f32[b:8/model, h:16] = all_to_all(%x) h to b over{model}
output(%turned) s
)");
}

TEST(ExpandReshards, SwappedAxesAreOneCollectivePermute) {
  EXPECT_EQ(AfterPass("expand_reshards", R"(
mesh{data:2, model:2}
%x : f32[b:8/data, h:16/model] = input x
%moved : f32[b:8/model, h:16/data] = reshard(%x)
output(%moved) s
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8/data, h:16/model] = input x
%moved : f32[b:8/model, h:16/data] = collective_permute(%x) over{data, model}
output(%moved) s
)");
}

TEST(ExpandReshards, IntermediateValuesHaveNames) {
  EXPECT_EQ(AfterPass("expand_reshards", R"(
mesh{data:2, model:4}
%x : f32[b:8/data, h:16/model] = input x
%y : f32[b:8/data] unreduced{model} = reduce(%x) sum
%full : f32[b:8] = reshard(%y)
output(%full) s
)"),
            R"(
mesh{data:2, model:4}
%x : f32[b:8/data, h:16/model] = input x
%y : f32[b:8/data] unreduced{model} = reduce(%x) sum
%y.sum : f32[b:8/data] = all_reduce(%y) sum over{model}
%full : f32[b:8] = all_gather(%y.sum) b over{data}
output(%full) s
)");
}

// A step over axes that the reshard does not change has all of its causes.
TEST(ExpandReshards, EveryStepHasACause) {
  auto program = ParseText(R"(
mesh{data:4, model:2}
grains{h:model}
rule b:data from "x"
%x : f32[b:8/data, h:16] = input x
%y : f32[h:16] unreduced{data} = reduce(%x) sum
%all : f32[h:16] = reshard(%y) for{b/data rule 0}
output(%all) s
)");
  ASSERT_OK(program);
  ASSERT_OK(RunPass("expand_reshards", *program));
  EXPECT_EQ(TextOf(*program, ProgramDetail::kWithOrigins),
            R"(mesh{data:4, model:2}
rule b:data from "x"
%x : f32[b:8/data, h:16] = input x
%y : f32[h:16] unreduced{data} = reduce(%x) sum
%y.sliced : f32[h:16/model] unreduced{data} = all_slice(%y) h over{model} for{b/data rule 0}
%y.sum : f32[h:16/model] = all_reduce(%y.sliced) sum over{data} for{b/data rule 0}
%all : f32[h:16] = all_gather(%y.sum) h over{model} for{b/data rule 0}
output(%all) s
)");
}

TEST(ExpandReshards, EqualReshardsAreExpandedSeparately) {
  EXPECT_EQ(AfterPass("expand_reshards", R"(
mesh{model:2}
%x : f32[b:8, h:16/model] = input x
%z : f32[b:8, h:16/model] = input z
%x.all : f32[b:8, h:16] = reshard(%x)
%z.all : f32[b:8, h:16] = reshard(%z)
output(%x.all) x
output(%z.all) z
)"),
            R"(
mesh{model:2}
%x : f32[b:8, h:16/model] = input x
%z : f32[b:8, h:16/model] = input z
%x.all : f32[b:8, h:16] = all_gather(%x) h over{model}
%z.all : f32[b:8, h:16] = all_gather(%z) h over{model}
output(%x.all) x
output(%z.all) z
)");
}

TEST(ExpandReshards, ProgramWithoutReshardsIsUnchanged) {
  ExpectUnchanged("expand_reshards", R"(
mesh{model:2}
%x : f32[b:8, h:16/model] = input x
%y : f32[b:8, h:16/model] = map(%x) relu
output(%y) y
)");
}

TEST(ExpandReshards, ReshardThatChangesNothingIsAnInternalError) {
  EXPECT_EQ(AfterPass("expand_reshards", R"(
mesh{model:2}
%x : f32[b:8/model] = input x
%y : f32[b:8/model] = reshard(%x)
output(%y) y
)"),
            "expand_reshards: INTERNAL reshard of %x changes nothing");
}

}  // namespace
}  // namespace mtf::testing
