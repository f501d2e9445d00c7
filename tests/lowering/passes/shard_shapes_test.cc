// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/shard_shapes.h"

#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

TEST(ShardShapes, EvenShardsGetTheirExtents) {
  EXPECT_EQ(AfterPass("shard_shapes", R"(
mesh{data:2, model:4}
%x : f32[b:8/data, h:16/model] = input x
%y : f32[b:8/data, h:16/model] = map(%x) relu
%s : f32[b:8/data] unreduced{model} = reduce(%y) sum
%all : f32[b:8/data] = all_reduce(%s) sum over{model}
output(%all) s
)"),
            R"(
mesh{data:2, model:4}
%x : f32[b:8/data=4, h:16/model=4] = input x
%y : f32[b:8/data=4, h:16/model=4] = map(%x) relu
%s : f32[b:8/data=4] unreduced{model} = reduce(%y) sum
%all : f32[b:8/data=4] = all_reduce(%s) sum over{model}
output(%all) s
)");
}

// Its grain is 8, although some values have two shards of it or one.
TEST(ShardShapes, UnevenDimensionIsPaddedToItsGrain) {
  EXPECT_EQ(AfterPass("shard_shapes", R"(
mesh{data:2, model:4}
%x : f32[b:13/data] = input x
%y : f32[b:13/data+model] = input y
%z : f32[b:13] = all_gather(%x) b over{data}
output(%y) y
output(%z) z
)"),
            R"(
mesh{data:2, model:4}
%x : f32[b:13/data=8] = input x
%y : f32[b:13/data+model=2] = input y
%z : f32[b:13=16] = all_gather(%x) b over{data}
output(%y) y
output(%z) z
)");
}

TEST(ShardShapes, SumOverPaddingIsMaskedWithZero) {
  EXPECT_EQ(AfterPass("shard_shapes", R"(
mesh{model:2}
%x : f32[b:4, h:13/model] = input x
%e : f32[b:4, h:13/model] = map(%x) exp
%s : f32[b:4] unreduced{model} = reduce(%e) sum
%all : f32[b:4] = all_reduce(%s) sum over{model}
output(%all) s
)"),
            R"(
mesh{model:2}
%x : f32[b:4, h:13/model=7] = input x
%e : f32[b:4, h:13/model=7] = map(%x) exp
%e_1 : f32[b:4, h:13/model=7] = mask(%e) h fill 0
%s : f32[b:4] unreduced{model} = reduce(%e_1) sum
%all : f32[b:4] = all_reduce(%s) sum over{model}
output(%all) s
)");
}

// An input is padded with zeros, and these functions keep them.
TEST(ShardShapes, SumOverZeroPaddingNeedsNoMask) {
  EXPECT_EQ(AfterPass("shard_shapes", R"(
mesh{model:2}
%x : f32[b:4, h:13/model] = input x
%e : f32[b:4, h:13/model] = map(%x, %x) [add($0, $1); relu($2); tanh($3); sqrt($4)]
%s : f32[b:4] unreduced{model} = reduce(%e) sum
%all : f32[b:4] = all_reduce(%s) sum over{model}
output(%all) s
)"),
            R"(
mesh{model:2}
%x : f32[b:4, h:13/model=7] = input x
%e : f32[b:4, h:13/model=7] = map(%x, %x) [add($0, $1); relu($2); tanh($3); sqrt($4)]
%s : f32[b:4] unreduced{model} = reduce(%e) sum
%all : f32[b:4] = all_reduce(%s) sum over{model}
output(%all) s
)");
}

TEST(ShardShapes, MaximumIsMaskedWithTheLowestNumber) {
  EXPECT_EQ(AfterPass("shard_shapes", R"(
mesh{model:2}
%x : f32[b:4, h:13/model] = input x
%k : i32[b:4, h:13/model] = input k
%m : f32[b:4] unreduced{model} max = reduce(%x) max
%m.max : f32[b:4] = all_reduce(%m) max over{model}
%n : f32[b:4] unreduced{model} min = reduce(%x) min
%n.min : f32[b:4] = all_reduce(%n) min over{model}
%l : i32[b:4] unreduced{model} max = reduce(%k) max
%l.max : i32[b:4] = all_reduce(%l) max over{model}
output(%m.max) m
output(%n.min) n
output(%l.max) l
)"),
            R"(
mesh{model:2}
%x : f32[b:4, h:13/model=7] = input x
%k : i32[b:4, h:13/model=7] = input k
%x_1 : f32[b:4, h:13/model=7] = mask(%x) h fill -inf
%m : f32[b:4] unreduced{model} max = reduce(%x_1) max
%m.max : f32[b:4] = all_reduce(%m) max over{model}
%x_2 : f32[b:4, h:13/model=7] = mask(%x) h fill inf
%n : f32[b:4] unreduced{model} min = reduce(%x_2) min
%n.min : f32[b:4] = all_reduce(%n) min over{model}
%k_1 : i32[b:4, h:13/model=7] = mask(%k) h fill -2147483648
%l : i32[b:4] unreduced{model} max = reduce(%k_1) max
%l.max : i32[b:4] = all_reduce(%l) max over{model}
output(%m.max) m
output(%n.min) n
output(%l.max) l
)");
}

// Zero times an infinity is not zero.
TEST(ShardShapes, EinsumMasksSummedDimensionsOfBothOperands) {
  EXPECT_EQ(AfterPass("shard_shapes", R"(
mesh{model:2}
%x : f32[b:13, h:5/model] = input x
%w : f32[h:5/model, o:4] = input w
%x1 : f32[b:13, h:5/model] = map(%x) cos
%w1 : f32[h:5/model, o:4] = map(%w) exp
%y : f32[b:13, o:4] unreduced{model} = einsum(%x1, %w1) sum{h}
%y.sum : f32[b:13, o:4] = all_reduce(%y) sum over{model}
output(%y.sum) y
)"),
            R"(
mesh{model:2}
%x : f32[b:13, h:5/model=3] = input x
%w : f32[h:5/model=3, o:4] = input w
%x1 : f32[b:13, h:5/model=3] = map(%x) cos
%w1 : f32[h:5/model=3, o:4] = map(%w) exp
%x1_1 : f32[b:13, h:5/model=3] = mask(%x1) h fill 0
%w1_1 : f32[h:5/model=3, o:4] = mask(%w1) h fill 0
%y : f32[b:13, o:4] unreduced{model} = einsum(%x1_1, %w1_1) sum{h}
%y.sum : f32[b:13, o:4] = all_reduce(%y) sum over{model}
output(%y.sum) y
)");
}

// Padding rows give padding rows.
TEST(ShardShapes, EinsumDoesNotMaskKeptDimensions) {
  EXPECT_EQ(AfterPass("shard_shapes", R"(
mesh{data:2}
%x : f32[b:13/data, h:4] = input x
%w : f32[h:4, o:4] = input w
%x1 : f32[b:13/data, h:4] = map(%x) cos
%y : f32[b:13/data, o:4] = einsum(%x1, %w) sum{h}
output(%y) y
)"),
            R"(
mesh{data:2}
%x : f32[b:13/data=7, h:4] = input x
%w : f32[h:4, o:4] = input w
%x1 : f32[b:13/data=7, h:4] = map(%x) cos
%y : f32[b:13/data=7, o:4] = einsum(%x1, %w) sum{h}
output(%y) y
)");
}

TEST(ShardShapes, ReadersShareAMask) {
  EXPECT_EQ(AfterPass("shard_shapes", R"(
mesh{model:2}
%x : f32[b:4, h:13/model] = input x
%e : f32[b:4, h:13/model] = map(%x) exp
%s : f32[b:4] unreduced{model} = reduce(%e) sum
%t : f32[] unreduced{model} = reduce(%e) sum
%s.sum : f32[b:4] = all_reduce(%s) sum over{model}
%t.sum : f32[] = all_reduce(%t) sum over{model}
output(%s.sum) s
output(%t.sum) t
)"),
            R"(
mesh{model:2}
%x : f32[b:4, h:13/model=7] = input x
%e : f32[b:4, h:13/model=7] = map(%x) exp
%e_1 : f32[b:4, h:13/model=7] = mask(%e) h fill 0
%s : f32[b:4] unreduced{model} = reduce(%e_1) sum
%t : f32[] unreduced{model} = reduce(%e_1) sum
%s.sum : f32[b:4] = all_reduce(%s) sum over{model}
%t.sum : f32[] = all_reduce(%t) sum over{model}
output(%s.sum) s
output(%t.sum) t
)");
}

TEST(ShardShapes, TwoFillsNeedTwoMasks) {
  EXPECT_EQ(AfterPass("shard_shapes", R"(
mesh{model:2}
%x : f32[b:4, h:13/model] = input x
%e : f32[b:4, h:13/model] = map(%x) exp
%s : f32[b:4] unreduced{model} = reduce(%e) sum
%m : f32[b:4] unreduced{model} max = reduce(%e) max
%s.sum : f32[b:4] = all_reduce(%s) sum over{model}
%m.max : f32[b:4] = all_reduce(%m) max over{model}
output(%s.sum) s
output(%m.max) m
)"),
            R"(
mesh{model:2}
%x : f32[b:4, h:13/model=7] = input x
%e : f32[b:4, h:13/model=7] = map(%x) exp
%e_1 : f32[b:4, h:13/model=7] = mask(%e) h fill 0
%s : f32[b:4] unreduced{model} = reduce(%e_1) sum
%e_2 : f32[b:4, h:13/model=7] = mask(%e) h fill -inf
%m : f32[b:4] unreduced{model} max = reduce(%e_2) max
%s.sum : f32[b:4] = all_reduce(%s) sum over{model}
%m.max : f32[b:4] = all_reduce(%m) max over{model}
output(%s.sum) s
output(%m.max) m
)");
}

TEST(ShardShapes, OnlyReducedDimensionsAreMasked) {
  EXPECT_EQ(AfterPass("shard_shapes", R"(
mesh{data:2, model:2}
%x : f32[b:5/data, h:13/model] = input x
%e : f32[b:5/data, h:13/model] = map(%x) exp
%s : f32[b:5/data] unreduced{model} = reduce(%e) sum
%all : f32[b:5/data] = all_reduce(%s) sum over{model}
output(%all) s
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:5/data=3, h:13/model=7] = input x
%e : f32[b:5/data=3, h:13/model=7] = map(%x) exp
%e_1 : f32[b:5/data=3, h:13/model=7] = mask(%e) h fill 0
%s : f32[b:5/data=3] unreduced{model} = reduce(%e_1) sum
%all : f32[b:5/data=3] = all_reduce(%s) sum over{model}
output(%all) s
)");
}

// So that the next step may rely on it.
TEST(ShardShapes, WrittenVariableHasZerosInItsPadding) {
  EXPECT_EQ(AfterPass("shard_shapes", R"(
mesh{data:2}
%w : f32[i:5/data] = read_variable w
%n : f32[i:5/data] = map(%w) exp
%w.new : f32[i:5/data] = write_variable(%n) w
output(%n) n
)"),
            R"(
mesh{data:2}
%w : f32[i:5/data=3] = read_variable w
%n : f32[i:5/data=3] = map(%w) exp
%n_1 : f32[i:5/data=3] = mask(%n) i fill 0
%w.new : f32[i:5/data=3] = write_variable(%n_1) w
output(%n) n
)");
}

TEST(ShardShapes, RandomNumbersFillThePaddingToo) {
  EXPECT_EQ(AfterPass("shard_shapes", R"(
mesh{model:2}
%n : f32[b:4, h:13/model] = random normal stream 0
%s : f32[b:4] unreduced{model} = reduce(%n) sum
%all : f32[b:4] = all_reduce(%s) sum over{model}
output(%all) s
)"),
            R"(
mesh{model:2}
%n : f32[b:4, h:13/model=7] = random normal stream 0
%n_1 : f32[b:4, h:13/model=7] = mask(%n) h fill 0
%s : f32[b:4] unreduced{model} = reduce(%n_1) sum
%all : f32[b:4] = all_reduce(%s) sum over{model}
output(%all) s
)");
}

TEST(ShardShapes, IotaCountsOnIntoThePadding) {
  EXPECT_EQ(AfterPass("shard_shapes", R"(
mesh{model:2}
%i : f32[h:13/model] = map [iota.f32(h)]
%s : f32[] unreduced{model} = reduce(%i) sum
%all : f32[] = all_reduce(%s) sum over{model}
output(%all) s
)"),
            R"(
mesh{model:2}
%i : f32[h:13/model=7] = map [iota.f32(h)]
%i_1 : f32[h:13/model=7] = mask(%i) h fill 0
%s : f32[] unreduced{model} = reduce(%i_1) sum
%all : f32[] = all_reduce(%s) sum over{model}
output(%all) s
)");
}

TEST(ShardShapes, ConcatLeavesZerosInThePadding) {
  EXPECT_EQ(AfterPass("shard_shapes", R"(
mesh{model:2}
%x : f32[b:4, h:13/model] = input x
%g : f32[b:4, h:13] = all_gather(%x) h over{model}
%e : f32[b:4, h:13] = map(%g) exp
%t : f32[b:4, h:2] = input t
%c : f32[b:4, h:15] = concat(%e, %t) h
%s : f32[b:4] = reduce(%c) sum
output(%s) s
)"),
            R"(
mesh{model:2}
%x : f32[b:4, h:13/model=7] = input x
%g : f32[b:4, h:13=14] = all_gather(%x) h over{model}
%e : f32[b:4, h:13=14] = map(%g) exp
%t : f32[b:4, h:2] = input t
%c : f32[b:4, h:15=16] = concat(%e, %t) h
%s : f32[b:4] = reduce(%c) sum
output(%s) s
)");
}

// The ranks without the element of a have zeros there, in r too.
TEST(ShardShapes, RenamedZerosOfAShardedElementNeedNoMask) {
  EXPECT_EQ(AfterPass("shard_shapes", R"(
mesh{y:2}
%x : f32[b:11, a:1/y] = input x
%r : f32[c:11, a:1/y] = reshape(%x)
%s : f32[] unreduced{y} = reduce(%r) sum
%all : f32[] = all_reduce(%s) sum over{y}
output(%all) s
)"),
            R"(
mesh{y:2}
%x : f32[b:11, a:1/y] = input x
%r : f32[c:11, a:1/y] = reshape(%x)
%s : f32[] unreduced{y} = reduce(%r) sum
%all : f32[] = all_reduce(%s) sum over{y}
output(%all) s
)");
}

TEST(ShardShapes, RenameKeepsThePadding) {
  EXPECT_EQ(AfterPass("shard_shapes", R"(
mesh{model:2}
%x : f32[h:13/model] = input x
%e : f32[h:13/model] = map(%x) exp
%r : f32[k:13/model] = reshape(%e)
%s : f32[] unreduced{model} = reduce(%r) sum
%all : f32[] = all_reduce(%s) sum over{model}
output(%all) s
)"),
            R"(
mesh{model:2}
%x : f32[h:13/model=7] = input x
%e : f32[h:13/model=7] = map(%x) exp
%r : f32[k:13/model=7] = reshape(%e)
%r_1 : f32[k:13/model=7] = mask(%r) k fill 0
%s : f32[] unreduced{model} = reduce(%r_1) sum
%all : f32[] = all_reduce(%s) sum over{model}
output(%all) s
)");
}

TEST(ShardShapes, ReshapeThatMovesElementsLeavesZeros) {
  EXPECT_EQ(AfterPass("shard_shapes", R"(
mesh{model:2}
%x : f32[b:3, h:5/model] = input x
%g : f32[b:3, h:5] = all_gather(%x) h over{model}
%e : f32[b:3, h:5] = map(%g) exp
%r : f32[k:15] = reshape(%e)
%s : f32[] = reduce(%r) sum
output(%s) s
)"),
            R"(
mesh{model:2}
%x : f32[b:3, h:5/model=3] = input x
%g : f32[b:3, h:5=6] = all_gather(%x) h over{model}
%e : f32[b:3, h:5=6] = map(%g) exp
%r : f32[k:15] = reshape(%e)
%s : f32[] = reduce(%r) sum
output(%s) s
)");
}

TEST(ShardShapes, IsIdempotent) {
  ExpectUnchanged("shard_shapes", R"(
mesh{model:2}
%x : f32[b:4, h:13/model=7] = input x
%e : f32[b:4, h:13/model=7] = map(%x) exp
%e_1 : f32[b:4, h:13/model=7] = mask(%e) h fill 0
%s : f32[b:4] unreduced{model} = reduce(%e_1) sum
%all : f32[b:4] = all_reduce(%s) sum over{model}
output(%all) s
)");
}

TEST(ShardShapes, HugeShardsAreAnError) {
  EXPECT_EQ(AfterPass("shard_shapes", R"(
mesh{model:2}
%x : f32[b:4398046511104, h:9/model] = input x
output(%x) x
)"),
            "shard_shapes: RESOURCE_EXHAUSTED \"x\" f32[b=4398046511104, h=9] "
            "takes 21990232555520 elements on every device\n"
            "  help     make it smaller, or shard it over more devices");
}

// Unreachable from text: the program was built without declaring its grains.
TEST(ShardShapesDeathTest, UnevenShardsAreNamed) {
  const Mesh mesh = *Mesh::Parse("x:2");
  Program program;
  program.mesh = mesh;
  program.grains = Grains(mesh);
  TensorLayout layout = TensorLayout::Replicated(2);
  layout.dims[1] = {0};
  program.AddValue("h", kFloat32, {{"a", 4}, {"b", 3}}, layout);
  EXPECT_DEATH(ShardShapes(program).IgnoreError(),
               "extent 3 of \"b\" of \"h\" does not divide by 2 shards: "
               "Grains::Allow was not called for x");
}

// Padding alone can exceed the limit.
TEST(ShardShapes, HugePaddingIsAnError) {
  EXPECT_THAT(AfterPass("shard_shapes", R"(
mesh{u:65536, v:32767}
%x : f32[a:1/u, b:1, c:1, d:1] = input x
%y : f32[a:1, b:1/u+v, c:1, d:1] = input y
%z : f32[a:1, b:1, c:1/v, d:1] = input z
%t : f32[a:1, b:1, c:1, d:1/u] = input t
output(%x) x
)"),
              ::testing::StartsWith("shard_shapes: RESOURCE_EXHAUSTED \"x\" "));
}

}  // namespace
}  // namespace mtf::testing
