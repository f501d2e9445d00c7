// SPDX-License-Identifier: Apache-2.0
//
// What delay_all_reduces leaves where it is: a reduction that what follows
// needs done, or that would cost more behind it.
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

// Rounding before the sum would lose what the sum keeps.
TEST(UndelayedAllReduces, ACastDownComesBehindTheReduction) {
  ExpectUnchanged("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = reshard(%y)
%narrow : bf16[b:8, o:4] = map(%y.sum) [cast.bf16($0)]
output(%narrow) s
)");
}

TEST(UndelayedAllReduces, NeitherHalfPrecisionHoldsTheOther) {
  ExpectUnchanged("delay_all_reduces", R"(
mesh{model:2}
%x : bf16[b:8, h:16/model] = input x
%v : bf16[h:16/model, o:4] = input v
%y : bf16[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : bf16[b:8, o:4] = reshard(%y)
%other : f16[b:8, o:4] = map(%y.sum) [cast.f16($0)]
output(%other) s
)");
}

// Each device would add the number once.
TEST(UndelayedAllReduces, APadWithAnotherNumberComesBehindTheReduction) {
  ExpectUnchanged("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = reshard(%y)
%p : f32[b:8, o:6] = pad(%y.sum) o before 1 fill 1
output(%p) s
)");
}

TEST(UndelayedAllReduces, AConcatWithSomethingWholeComesBehindTheReduction) {
  ExpectUnchanged("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = reshard(%y)
%n : f32[b:8, o:4] = input n
%c : f32[b:8, o:8] = concat(%y.sum, %n) o
output(%c) s
)");
}

TEST(UndelayedAllReduces, AMaximumOfASumComesBehindTheReduction) {
  ExpectUnchanged("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = reshard(%y)
%t : f32[b:8] = reduce(%y.sum) max
output(%t) s
)");
}

// Three times the bytes would be sent.
TEST(UndelayedAllReduces, WhatMakesTheValueLargerComesBehindTheReduction) {
  ExpectUnchanged("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = reshard(%y)
%big : f32[b:8, c:3, o:4] = map(%y.sum) identity
output(%big) s
)");
}

TEST(UndelayedAllReduces, ANonlinearFunctionComesBehindTheReduction) {
  ExpectUnchanged("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = reshard(%y)
%r : f32[b:8, o:4] = map(%y.sum) relu
output(%r) s
)");
}

TEST(UndelayedAllReduces, AProductOfTwoSumsComesBehindTheReduction) {
  ExpectUnchanged("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = reshard(%y)
%w : f32[h:16/model, o:4] = input w
%z : f32[b:8, o:4] unreduced{model} = einsum(%x, %w) sum{h}
%z.sum : f32[b:8, o:4] = reshard(%z)
%p : f32[b:8, o:4] = map(%y.sum, %z.sum) mul
output(%p) s
)");
}

// One would become one per device.
TEST(UndelayedAllReduces, AConstantIsNotAddedOnEveryDevice) {
  ExpectUnchanged("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = reshard(%y)
%p : f32[b:8, o:4] = map(%y.sum) [literal.f32(1); add($0, $1)]
output(%p) s
)");
}

// Summands of both signs would give a NaN where their sum has one.
TEST(UndelayedAllReduces, AnInfiniteFactorComesBehindTheReduction) {
  ExpectUnchanged("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = reshard(%y)
%p : f32[b:8, o:4] = map(%y.sum) [literal.f32(inf); mul($0, $1)]
output(%p) s
)");
}

TEST(UndelayedAllReduces, ADivisionByZeroComesBehindTheReduction) {
  ExpectUnchanged("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = reshard(%y)
%p : f32[b:8, o:4] = map(%y.sum) [literal.f32(0); div($0, $1)]
output(%p) s
)");
}

// The second reader needs it anyway.
TEST(UndelayedAllReduces, ASumWithASecondReaderIsReducedAtOnce) {
  ExpectUnchanged("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = reshard(%y)
%n : f32[b:8, o:4] = map(%y.sum) neg
%r : f32[b:8, o:4] = map(%y.sum) relu
output(%n) n
output(%r) r
)");
}

TEST(UndelayedAllReduces, SumsOverDifferentAxesAreReducedEach) {
  ExpectUnchanged("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%u : f32[b:8, k:6/data] = input u
%w : f32[k:6/data, o:4] = input w
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = reshard(%y)
%z : f32[b:8, o:4] unreduced{data} = einsum(%u, %w) sum{k}
%z.sum : f32[b:8, o:4] = reshard(%z)
%s : f32[b:8, o:4] = map(%y.sum, %z.sum) add
output(%s) s
)");
}

TEST(UndelayedAllReduces, ASumAndSomethingWholeAreAddedBehindTheReduction) {
  ExpectUnchanged("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = reshard(%y)
%n : f32[b:8, o:4] = input n
%s : f32[b:8, o:4] = map(%y.sum, %n) add
output(%s) s
)");
}

TEST(UndelayedAllReduces, AChainWithASecondReaderInItsMiddleStays) {
  ExpectUnchanged("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = reshard(%y)
%w : f32[h:16/model, o:4] = input w
%z : f32[b:8, o:4] unreduced{model} = einsum(%x, %w) sum{h}
%z.sum : f32[b:8, o:4] = reshard(%z)
%n : f32[b:8, o:4] = input n
%s : f32[b:8, o:4] = map(%y.sum, %n) add
%t : f32[b:8, o:4] = map(%s, %z.sum) add
output(%s) s
output(%t) t
)");
}

TEST(UndelayedAllReduces, APendingMaximumIsReducedAtOnce) {
  ExpectUnchanged("delay_all_reduces", R"(
mesh{model:2}
%x : f32[b:8, h:16/model] = input x
%m : f32[b:8] unreduced{model} max = reduce(%x) max
%m.max : f32[b:8] = reshard(%m)
%n : f32[b:8] = map(%m.max) neg
output(%n) n
)");
}

}  // namespace
}  // namespace mtf::testing
