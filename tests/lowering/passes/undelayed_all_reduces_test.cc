// SPDX-License-Identifier: Apache-2.0
//
// What delay_all_reduces leaves unchanged: reductions whose readers need the
// reduced value, or that would cost more later.
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

// Rounding before the reduction would lose precision.
TEST(UndelayedAllReduces, NarrowingCastStaysAfterTheReduction) {
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

TEST(UndelayedAllReduces, CastBetween16BitFloatsStaysAfterTheReduction) {
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
TEST(UndelayedAllReduces, NonzeroPadStaysAfterTheReduction) {
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

TEST(UndelayedAllReduces, ConcatWithAReplicatedValueStaysAfterTheReduction) {
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

TEST(UndelayedAllReduces, MaximumOfASumStaysAfterTheReduction) {
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
TEST(UndelayedAllReduces, BroadcastStaysAfterTheReduction) {
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

TEST(UndelayedAllReduces, NonlinearFunctionStaysAfterTheReduction) {
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

TEST(UndelayedAllReduces, ProductOfTwoSumsStaysAfterTheReduction) {
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

// A one would become one per device.
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

// Summands of both signs would give a NaN where the sum is infinite.
TEST(UndelayedAllReduces, InfiniteFactorStaysAfterTheReduction) {
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

TEST(UndelayedAllReduces, DivisionByZeroStaysAfterTheReduction) {
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

// The second reader needs the reduced value anyway.
TEST(UndelayedAllReduces, SumWithASecondReaderIsReducedImmediately) {
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

TEST(UndelayedAllReduces, SumsOverDifferentAxesAreReducedSeparately) {
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

TEST(UndelayedAllReduces, SumAndReplicatedValueAreAddedAfterTheReduction) {
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

TEST(UndelayedAllReduces, ChainWithASecondReaderInsideIsUnchanged) {
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

TEST(UndelayedAllReduces, UnreducedMaximumIsReducedImmediately) {
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
