// SPDX-License-Identifier: Apache-2.0
//
// Casts swap with reshards, so that the narrower dtype is sent.
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/variable.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/pass_test.h"
#include "tests/lowering/small_transformer.h"

namespace mtf::testing {
namespace {

constexpr char kPass[] = "narrow_reshards";

TEST(NarrowReshards, WideningCastMovesAfterASum) {
  EXPECT_EQ(AfterPass(kPass, R"(
mesh{model:2}
%x : bf16[b:8, h:16/model] = input x
%v : bf16[h:16/model, o:4] = input v
%y : bf16[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%wide : f32[b:8, o:4] unreduced{model} = map(%y) [cast.f32($0)]
%full : f32[b:8, o:4] = reshard(%wide)
output(%full) s
)"),
            R"(
mesh{model:2}
%x : bf16[b:8, h:16/model] = input x
%v : bf16[h:16/model, o:4] = input v
%y : bf16[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y_1 : bf16[b:8, o:4] = reshard(%y)
%full : f32[b:8, o:4] = map(%y_1) [cast.f32($0)]
output(%full) s
)");
}

TEST(NarrowReshards, WideningCastMovesAfterAGather) {
  EXPECT_EQ(AfterPass(kPass, R"(
mesh{model:2}
%x : bf16[b:8/model] = input x
%wide : f32[b:8/model] = map(%x) [cast.f32($0)]
%full : f32[b:8] = reshard(%wide)
output(%full) s
)"),
            R"(
mesh{model:2}
%x : bf16[b:8/model] = input x
%x_1 : bf16[b:8] = reshard(%x)
%full : f32[b:8] = map(%x_1) [cast.f32($0)]
output(%full) s
)");
}

TEST(NarrowReshards, NarrowingCastMovesBeforeAGather) {
  EXPECT_EQ(AfterPass(kPass, R"(
mesh{data:2}
%w : f32[io:8/data] = read_variable w
%full : f32[io:8] = reshard(%w)
%half : bf16[io:8] = map(%full) [cast.bf16($0)]
output(%half) s
)"),
            R"(
mesh{data:2}
%w : f32[io:8/data] = read_variable w
%w_1 : bf16[io:8/data] = map(%w) [cast.bf16($0)]
%half : bf16[io:8] = reshard(%w_1)
output(%half) s
)");
}

// Rounding before the reduction would lose precision.
TEST(NarrowReshards, NarrowingCastStaysAfterASum) {
  ExpectUnchanged(kPass, R"(
mesh{data:2}
%x : f32[b:8/data, o:4] = input x
%sum : f32[o:4] unreduced{data} = reduce(%x) sum
%full : f32[o:4] = reshard(%sum)
%half : bf16[o:4] = map(%full) [cast.bf16($0)]
output(%half) s
)");
}

TEST(NarrowReshards, CastWithASecondReaderIsUnchanged) {
  ExpectUnchanged(kPass, R"(
mesh{model:2}
%x : bf16[b:8/model] = input x
%wide : f32[b:8/model] = map(%x) [cast.f32($0)]
%full : f32[b:8] = reshard(%wide)
output(%full) s
output(%wide) t
)");
  ExpectUnchanged(kPass, R"(
mesh{data:2}
%w : f32[io:8/data] = read_variable w
%full : f32[io:8] = reshard(%w)
%half : bf16[io:8] = map(%full) [cast.bf16($0)]
output(%half) s
output(%full) t
)");
}

TEST(NarrowReshards, CastBetweenEqualSizesIsUnchanged) {
  ExpectUnchanged(kPass, R"(
mesh{model:2}
%x : i32[b:8/model] = input x
%float : f32[b:8/model] = map(%x) [cast.f32($0)]
%full : f32[b:8] = reshard(%float)
output(%full) s
)");
}

// The value that waits for its reader is narrow, also through a chain of casts.
TEST(NarrowReshards, WideningCastMovesToItsFirstReader) {
  EXPECT_EQ(AfterPass(kPass, R"(
mesh{model:2}
%x : bool[b:8] = input x
%half : bf16[b:8] = map(%x) [cast.bf16($0)]
%wide : f32[b:8] = map(%half) [cast.f32($0)]
%y : f32[b:8] = input y
%z : f32[b:8] = map(%y) neg
%sum : f32[b:8] = map(%z, %wide) add
%product : f32[b:8] = map(%sum, %wide) mul
output(%product) s
)"),
            R"(
mesh{model:2}
%x : bool[b:8] = input x
%y : f32[b:8] = input y
%z : f32[b:8] = map(%y) neg
%half : bf16[b:8] = map(%x) [cast.bf16($0)]
%wide : f32[b:8] = map(%half) [cast.f32($0)]
%sum : f32[b:8] = map(%z, %wide) add
%product : f32[b:8] = map(%sum, %wide) mul
output(%product) s
)");
}

// Gradients of matrices, in bf16, and those of layer norms together with the
// loss.
TEST(NarrowReshards, GradientsOfOneDTypeShareOneCall) {
  Graph graph;
  TransformerSizes sizes;
  sizes.dtype = kBFloat16;
  const Transformer model = BuildTransformer(graph, sizes);
  const auto program = LowerPreset(
      graph, "data", 4, {.fetches = {model.loss}, .updates = {model.step}});
  ASSERT_OK(program);
  for (const auto& [key, count] : CountCollectives(*program)) {
    EXPECT_EQ(key.first, CollectiveKind::kAllReduce);
    EXPECT_EQ(count.first, 2);
  }
}

// Two terms are added before the reduction: one call of four bytes instead of
// two of two, and no rounding in between.
TEST(NarrowReshards, AddedSumsStayWide) {
  Graph graph;
  const Dimension b{"b", 8}, h{"h", 16}, o{"o", 4};
  const Tensor x = Input(graph, "x", kBFloat16, {b, h}),
               y = Input(graph, "y", kBFloat16, {b, h}),
               v = Input(graph, "v", kBFloat16, {h, o});
  const Tensor sum = Cast(Einsum({x, v}, {b, o}), kFloat32) +
                     Cast(Einsum({y, v}, {b, o}), kFloat32);
  EXPECT_EQ(Costs(LowerText(graph, "model:2", "h:model", {.fetches = {sum}})),
            "all_reduce model 1x 128\n");
  const Tensor alone = Cast(Einsum({x, v}, {b, o}), kFloat32);
  EXPECT_EQ(Costs(LowerText(graph, "model:2", "h:model", {.fetches = {alone}})),
            "all_reduce model 1x 64\n");
}

// How nn layers use an f32 parameter in a bf16 model.
TEST(NarrowReshards, ShardedParameterIsGatheredInTheDTypeOfItsUse) {
  Graph graph;
  const Dimension b{"b", 8}, io{"io", 16};
  const Tensor x = Input(graph, "x", kBFloat16, {b, io});
  const Tensor w = Variable(graph, "w", Ones(graph, kFloat32, {io}));
  const Tensor y = x * Cast(w, kBFloat16);
  EXPECT_EQ(Costs(LowerText(graph, "data:2", "b:data [parameters] io:data",
                            {.fetches = {y}, .fetch_shards = true})),
            "all_gather data 1x 16\n");
}

}  // namespace
}  // namespace mtf::testing
