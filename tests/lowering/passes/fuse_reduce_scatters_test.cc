// SPDX-License-Identifier: Apache-2.0
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

TEST(FuseReduceScatters, SliceOfAnAllReduceIsOneReduceScatter) {
  EXPECT_EQ(AfterPass("fuse_reduce_scatters", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%s : f32[b:8, o:4] = all_reduce(%y) sum over{model}
%c : f32[b:8, o:4/model] = all_slice(%s) o over{model}
output(%c) c
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%c : f32[b:8, o:4/model] = reduce_scatter(%y) sum o over{model}
output(%c) c
)");
}

TEST(FuseReduceScatters, OrderOfAxesDoesNotMatter) {
  EXPECT_EQ(AfterPass("fuse_reduce_scatters", R"(
mesh{data:2, model:2}
%x : f32[b:8/data, h:16/model, o:4] = input x
%y : f32[o:4] unreduced{data, model} = reduce(%x) sum
%s : f32[o:4] = all_reduce(%y) sum over{data, model}
%c : f32[o:4/model+data] = all_slice(%s) o over{model, data}
output(%c) c
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8/data, h:16/model, o:4] = input x
%y : f32[o:4] unreduced{data, model} = reduce(%x) sum
%c : f32[o:4/model+data] = reduce_scatter(%y) sum o over{model, data}
output(%c) c
)");
}

TEST(FuseReduceScatters, SliceOfAMaximumIsOneReduceScatter) {
  EXPECT_EQ(AfterPass("fuse_reduce_scatters", R"(
mesh{model:2}
%x : f32[b:8, h:16/model] = input x
%m : f32[b:8] unreduced{model} max = reduce(%x) max
%s : f32[b:8] = all_reduce(%m) max over{model}
%c : f32[b:8/model] = all_slice(%s) b over{model}
output(%c) c
)"),
            R"(
mesh{model:2}
%x : f32[b:8, h:16/model] = input x
%m : f32[b:8] unreduced{model} max = reduce(%x) max
%c : f32[b:8/model] = reduce_scatter(%m) max b over{model}
output(%c) c
)");
}

// The other reader needs all of it.
TEST(FuseReduceScatters, AllReduceWithASecondReaderIsKept) {
  ExpectUnchanged("fuse_reduce_scatters", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%s : f32[b:8, o:4] = all_reduce(%y) sum over{model}
%c : f32[b:8, o:4/model] = all_slice(%s) o over{model}
output(%c) c
output(%s) s
)");
}

TEST(FuseReduceScatters, SliceOverAnotherAxisIsKept) {
  ExpectUnchanged("fuse_reduce_scatters", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%s : f32[b:8, o:4] = all_reduce(%y) sum over{model}
%c : f32[b:8, o:4/data] = all_slice(%s) o over{data}
output(%c) c
)");
}

TEST(FuseReduceScatters, SliceOverSomeOfTheAxesIsKept) {
  ExpectUnchanged("fuse_reduce_scatters", R"(
mesh{data:2, model:2}
%x : f32[b:8/data, h:16/model, o:4] = input x
%y : f32[o:4] unreduced{data, model} = reduce(%x) sum
%s : f32[o:4] = all_reduce(%y) sum over{data, model}
%c : f32[o:4/model] = all_slice(%s) o over{model}
output(%c) c
)");
}

TEST(FuseReduceScatters, SliceOfAnotherValueIsKept) {
  ExpectUnchanged("fuse_reduce_scatters", R"(
mesh{model:2}
%x : f32[b:8] = input x
%r : f32[b:8] = map(%x) relu
%c : f32[b:8/model] = all_slice(%r) b over{model}
output(%c) c
)");
}

}  // namespace
}  // namespace mtf::testing
