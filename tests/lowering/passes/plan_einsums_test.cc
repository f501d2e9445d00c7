// SPDX-License-Identifier: Apache-2.0
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

TEST(PlanEinsums, EveryEinsumGetsTheMatmulOfItsShards) {
  EXPECT_EQ(AfterPass("plan_einsums", R"(
mesh{data:2, model:2}
%x : f32[b:8/data=4, h:16/model=8] = input x
%w : f32[h:16/model=8, o:4] = input w
%y : f32[b:8/data=4, o:4] unreduced{model} = einsum(%x, %w) sum{h}
%y.sum : f32[b:8/data=4, o:4] = all_reduce(%y) sum over{model}
output(%y.sum) y
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8/data=4, h:16/model=8] = input x
%w : f32[h:16/model=8, o:4] = input w
%y : f32[b:8/data=4, o:4] unreduced{model} = einsum(%x, %w) sum{h} by{m 4 n 4 k 8}
%y.sum : f32[b:8/data=4, o:4] = all_reduce(%y) sum over{model}
output(%y.sum) y
)");
}

// Masks ensure that the padding contributes zeros.
TEST(PlanEinsums, PaddedExtentsAreMultipliedToo) {
  EXPECT_EQ(AfterPass("plan_einsums", R"(
mesh{data:2}
%x : f32[b:13/data=7, h:16] = input x
%w : f32[h:16, o:4] = input w
%y : f32[b:13/data=7, o:4] = einsum(%x, %w) sum{h}
output(%y) y
)"),
            R"(
mesh{data:2}
%x : f32[b:13/data=7, h:16] = input x
%w : f32[h:16, o:4] = input w
%y : f32[b:13/data=7, o:4] = einsum(%x, %w) sum{h} by{m 7 n 4 k 16}
output(%y) y
)");
}

TEST(PlanEinsums, AdjacentDimensionsFoldAndOthersAreBatched) {
  EXPECT_EQ(AfterPass("plan_einsums", R"(
mesh{data:2}
%q : f32[b:4/data=2, l:128, heads:8, d_kv:32] = input q
%k : f32[b:4/data=2, m:128, heads:8, d_kv:32] = input k
%x : f32[b:4/data=2, l:128, d_model:256] = input x
%w : f32[d_model:256, heads:8, d_kv:32] = input w
%s : f32[b:4/data=2, heads:8, l:128, m:128] = einsum(%q, %k) sum{d_kv}
%p : f32[b:4/data=2, l:128, heads:8, d_kv:32] = einsum(%x, %w) sum{d_model}
output(%s) s
output(%p) p
)"),
            R"(
mesh{data:2}
%q : f32[b:4/data=2, l:128, heads:8, d_kv:32] = input q
%k : f32[b:4/data=2, m:128, heads:8, d_kv:32] = input k
%x : f32[b:4/data=2, l:128, d_model:256] = input x
%w : f32[d_model:256, heads:8, d_kv:32] = input w
%s : f32[b:4/data=2, heads:8, l:128, m:128] = einsum(%q, %k) sum{d_kv} by{batch 2x8 m 128 n 128 k 32}
%p : f32[b:4/data=2, l:128, heads:8, d_kv:32] = einsum(%x, %w) sum{d_model} by{m 256 n 256 k 256}
output(%s) s
output(%p) p
)");
}

TEST(PlanEinsums, OnOneDeviceTheExtentsAreTheSizes) {
  EXPECT_EQ(AfterPass("plan_einsums", R"(
mesh{}
%x : f32[b:8, h:16] = input x
%w : f32[h:16, o:4] = input w
%y : f32[b:8, o:4] = einsum(%x, %w) sum{h}
output(%y) y
)"),
            R"(
mesh{}
%x : f32[b:8, h:16] = input x
%w : f32[h:16, o:4] = input w
%y : f32[b:8, o:4] = einsum(%x, %w) sum{h} by{m 8 n 4 k 16}
output(%y) y
)");
}

TEST(PlanEinsums, OtherInstructionsAreUnchanged) {
  ExpectUnchanged("plan_einsums", R"(
mesh{data:2}
%x : f32[b:8/data=4] = input x
%y : f32[b:8/data=4] = map(%x) relu
output(%y) y
)");
}

}  // namespace
}  // namespace mtf::testing
