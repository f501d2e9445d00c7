// SPDX-License-Identifier: Apache-2.0
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

// %u reuses the memory of %y, whose last reader came before.
TEST(PlanBuffers, ValuesOfDisjointLifetimesShareMemory) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%x : f32[b:64/data=32] = input x
%y : f32[b:64/data=32, c:4] = map(%x) identity
%z : f32[b:64/data=32] = reduce(%y) sum
%t : f32[c:4] unreduced{data} = reduce(%y) sum
%u : f32[b:64/data=32, c:4] = map(%z) identity
%s : f32[b:64/data=32] = reduce(%u) sum
output(%s) s
)"),
            R"(
mesh{data:2}
buffers{arena:704, commit:7}
%x : f32[b:64/data=32] @0 = input x
%y : f32[b:64/data=32, c:4] @128 = map(%x) identity
%z : f32[b:64/data=32] @0 = reduce(%y) sum
%t : f32[c:4] unreduced{data} @640 = reduce(%y) sum
%u : f32[b:64/data=32, c:4] @128 = map(%z) identity
%s : f32[b:64/data=32] @0 = reduce(%u) sum
output(%s) s
)");
}

// %y cannot: %x is read again.
TEST(PlanBuffers, MapOverwritesAnOperandWithoutLaterReaders) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%x : f32[b:64/data=32] = input x
%y : f32[b:64/data=32] = map(%x) exp
%z : f32[b:64/data=32] = map(%x, %y) add
output(%z) z
)"),
            R"(
mesh{data:2}
buffers{arena:256, commit:4}
%x : f32[b:64/data=32] @0 = input x
%y : f32[b:64/data=32] @128 = map(%x) exp
%z : f32[b:64/data=32] @0 = map(%x, %y) add
output(%z) z
)");
}

// Neither the shape nor the size of an element may change.
TEST(PlanBuffers, MapWithAWiderResultTakesNewMemory) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%x : f32[b:64/data=32] = input x
%y : f32[b:64/data=32, c:2] = map(%x) identity
%z : bf16[b:64/data=32, c:2] = map(%y) [cast.bf16($0)]
output(%z) z
)"),
            R"(
mesh{data:2}
buffers{arena:384, commit:4}
%x : f32[b:64/data=32] @0 = input x
%y : f32[b:64/data=32, c:2] @128 = map(%x) identity
%z : bf16[b:64/data=32, c:2] @0 = map(%y) [cast.bf16($0)]
output(%z) z
)");
}

TEST(PlanBuffers, TransposeTakesNewMemory) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%x : f32[b:64/data=32, c:2] = input x
%y : f32[c:2, b:64/data=32] = map(%x) identity
output(%y) z
)"),
            R"(
mesh{data:2}
buffers{arena:512, commit:3}
%x : f32[b:64/data=32, c:2] @0 = input x
%y : f32[c:2, b:64/data=32] @256 = map(%x) identity
output(%y) z
)");
}

TEST(PlanBuffers, ReductionsOverDevicesWorkInPlace) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%x : f32[b:64/data=32, c:100] = input x
%a : f32[c:100] unreduced{data} = reduce(%x) sum
%b : f32[] unreduced{data} = reduce(%x) sum
%a.sum : f32[c:100], %b.sum : f32[] = all_reduce(%a, %b) sum over{data}
%y : f32[c:100] = map(%a.sum, %b.sum) div
output(%y) z
)"),
            R"(
mesh{data:2}
buffers{arena:13312, commit:6}
%x : f32[b:64/data=32, c:100] @0 = input x
%a : f32[c:100] unreduced{data} @12800 = reduce(%x) sum
%b : f32[] unreduced{data} @13248 = reduce(%x) sum
%a.sum : f32[c:100] @12800, %b.sum : f32[] @13248 = all_reduce(%a, %b) sum over{data}
%y : f32[c:100] @12800 = map(%a.sum, %b.sum) div
output(%y) z
)");
}

// %y shares the memory of %x, and %z may overwrite it.
TEST(PlanBuffers, RenameSharesMemory) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%x : f32[b:13/data=7] = input x
%y : f32[k:13/data=7] = reshape(%x)
%z : f32[k:13/data=7] = map(%y) exp
output(%z) z
)"),
            R"(
mesh{data:2}
buffers{arena:64, commit:4}
%x : f32[b:13/data=7] @0 = input x
%y : f32[k:13/data=7] = reshape(%x)
%z : f32[k:13/data=7] @0 = map(%y) exp
output(%z) z
)");
}

TEST(PlanBuffers, ReshapeOfPaddedShardsTakesNewMemory) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%x : f32[b:3, c:5=6] = input x
%c : f32[c:5/data=3] = input c
%y : f32[k:15] = reshape(%x)
output(%y) z
output(%c) c
)"),
            R"(
mesh{data:2}
buffers{arena:256, commit:5}
%x : f32[b:3, c:5=6] @0 = input x
%c : f32[c:5/data=3] @128 = input c
%y : f32[k:15] @192 = reshape(%x)
output(%y) z
output(%c) c
)");
}

TEST(PlanBuffers, ReshapeWithoutPaddingSharesMemory) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%x : f32[b:4/data=2, c:6] = input x
%y : f32[k:24/data=12] = reshape(%x)
output(%y) z
)"),
            R"(
mesh{data:2}
buffers{arena:64, commit:3}
%x : f32[b:4/data=2, c:6] @0 = input x
%y : f32[k:24/data=12] = reshape(%x)
output(%y) z
)");
}

// %late has memory of its own from the start.
TEST(PlanBuffers, InputsAreAliveBeforeTheFirstInstruction) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%x : f32[b:64/data=32] = input x
%y : f32[b:64/data=32] = map(%x) exp
%z : f32[b:64/data=32] = map(%y) exp
%late : f32[b:64/data=32] = input late
%s : f32[b:64/data=32] = map(%z, %late) add
output(%s) s
)"),
            R"(
mesh{data:2}
buffers{arena:256, commit:6}
%x : f32[b:64/data=32] @0 = input x
%y : f32[b:64/data=32] @0 = map(%x) exp
%z : f32[b:64/data=32] @0 = map(%y) exp
%late : f32[b:64/data=32] @128 = input late
%s : f32[b:64/data=32] @0 = map(%z, %late) add
output(%s) s
)");
}

}  // namespace
}  // namespace mtf::testing
