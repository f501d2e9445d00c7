// SPDX-License-Identifier: Apache-2.0
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

// An operand that both maps read occurs once.
TEST(FuseMaps, ChainOfMapsIsOneMap) {
  EXPECT_EQ(AfterPass("fuse_maps", R"(
mesh{data:2}
%x : f32[b:8/data=4, h:16] = input x
%b : f32[h:16] = input b
%s : f32[b:8/data=4, h:16] = map(%x, %b) add
%g : f32[b:8/data=4, h:16] = map(%s) gelu
%t : f32[b:8/data=4, h:16] = map(%x, %g) sub
output(%t) t
)"),
            R"(
mesh{data:2}
%x : f32[b:8/data=4, h:16] = input x
%b : f32[h:16] = input b
%t : f32[b:8/data=4, h:16] = map(%x, %b) [add($0, $1); gelu($2); sub($0, $3)]
output(%t) t
)");
}

// The reduction then runs over the dimensions of the map.
TEST(FuseMaps, MapFusesIntoAReduction) {
  EXPECT_EQ(AfterPass("fuse_maps", R"(
mesh{data:2}
%x : f32[b:8/data=4, h:16] = input x
%q : f32[b:8/data=4, h:16] = map(%x) square
%s : f32[b:8/data=4] = reduce(%q) sum
output(%s) s
)"),
            R"(
mesh{data:2}
%x : f32[b:8/data=4, h:16] = input x
%s : f32[b:8/data=4] = reduce(%x) sum square over [b:8/data=4, h:16]
output(%s) s
)");
}

TEST(FuseMaps, MapFusesIntoAReductionOfTransposedElements) {
  EXPECT_EQ(AfterPass("fuse_maps", R"(
mesh{data:2}
%x : f32[b:8/data=4, h:16] = input x
%b : f32[h:16] = input b
%t : f32[h:16, b:8/data=4] = map(%x, %b) mul
%s : f32[b:8/data=4] = reduce(%t) max
output(%s) s
)"),
            R"(
mesh{data:2}
%x : f32[b:8/data=4, h:16] = input x
%b : f32[h:16] = input b
%s : f32[b:8/data=4] = reduce(%x, %b) max mul over [h:16, b:8/data=4]
output(%s) s
)");
}

// Computing it twice costs more than keeping it.
TEST(FuseMaps, MapWithASecondReaderIsKept) {
  ExpectUnchanged("fuse_maps", R"(
mesh{data:2}
%x : f32[b:8/data=4, h:16] = input x
%e : f32[b:8/data=4, h:16] = map(%x) exp
%s : f32[b:8/data=4] = reduce(%e) sum
%y : f32[b:8/data=4, h:16] = map(%e, %s) div
output(%y) y
)");
}

// It would be computed once per element of h.
// A reader of both would not be linear in the summands of the lookup.
TEST(FuseMaps, CastOfSummandsOfALookupIsKept) {
  ExpectUnchanged("fuse_maps", R"(
mesh{x:2}
%t : i32[n:4/x=2] = input t
%i : i32[b:3] = input i
%g : i32[b:3] unreduced{x} = gather(%t, %i) n
%c : f32[b:3] unreduced{x} = map(%g) [cast.f32($0)]
%y : f32[b:3] unreduced{x} = map(%c) neg
%s : f32[b:3] = all_reduce(%y) sum over{x}
output(%s) s
)");
}

TEST(FuseMaps, BroadcastMapIsKept) {
  ExpectUnchanged("fuse_maps", R"(
mesh{data:2}
%x : f32[b:8/data=4] = input x
%e : f32[b:8/data=4] = map(%x) exp
%z : f32[b:8/data=4, h:16] = input z
%y : f32[b:8/data=4, h:16] = map(%z, %e) mul
output(%y) y
)");
}

TEST(FuseMaps, LiteralsAndIotasFuseIntoEveryReader) {
  EXPECT_EQ(AfterPass("fuse_maps", R"(
mesh{data:2}
%x : f32[b:8/data=4] = input x
%one : f32[] = map [literal.f32(1)]
%i : f32[b:8/data=4] = map [iota.f32(b)]
%y : f32[b:8/data=4] = map(%x, %one) add
%z : f32[b:8/data=4] = map(%x, %one, %i) [mul($0, $1); sub($3, $2)]
output(%y) y
output(%z) z
)"),
            R"(
mesh{data:2}
%x : f32[b:8/data=4] = input x
%y : f32[b:8/data=4] = map(%x) [literal.f32(1); add($0, $1)]
%z : f32[b:8/data=4] = map(%x) [iota.f32(b); literal.f32(1); mul($0, $2); sub($3, $1)]
output(%y) y
output(%z) z
)");
}

TEST(FuseMaps, LiteralReadByAnEinsumIsKept) {
  EXPECT_EQ(AfterPass("fuse_maps", R"(
mesh{data:2}
%x : f32[b:8/data=4, h:16] = input x
%ones : f32[h:16] = map [literal.f32(1)]
%y : f32[b:8/data=4] = einsum(%x, %ones) sum{h}
%z : f32[b:8/data=4, h:16] = map(%x, %ones) add
output(%y) y
output(%z) z
)"),
            R"(
mesh{data:2}
%x : f32[b:8/data=4, h:16] = input x
%ones : f32[h:16] = map [literal.f32(1)]
%y : f32[b:8/data=4] = einsum(%x, %ones) sum{h}
%z : f32[b:8/data=4, h:16] = map(%x) [literal.f32(1); add($0, $1)]
output(%y) y
output(%z) z
)");
}

TEST(FuseMaps, BroadcastFusesIntoItsReader) {
  EXPECT_EQ(AfterPass("fuse_maps", R"(
mesh{data:2}
%x : f32[b:8/data=4, h:16] = input x
%m : f32[b:8/data=4] = input m
%wide : f32[b:8/data=4, h:16] = map(%m) identity
%y : f32[b:8/data=4, h:16] = map(%x, %wide) sub
output(%y) y
)"),
            R"(
mesh{data:2}
%x : f32[b:8/data=4, h:16] = input x
%m : f32[b:8/data=4] = input m
%y : f32[b:8/data=4, h:16] = map(%x, %m) [identity($1); sub($0, $2)]
output(%y) y
)");
}

TEST(FuseMaps, MapBeforeAnEinsumIsKept) {
  ExpectUnchanged("fuse_maps", R"(
mesh{data:2}
%x : f32[b:8/data=4, h:16] = input x
%w : f32[h:16, o:4] = input w
%r : f32[b:8/data=4, h:16] = map(%x) relu
%y : f32[b:8/data=4, o:4] = einsum(%r, %w) sum{h}
output(%y) y
)");
}

TEST(FuseMaps, MaskBetweenTwoMapsIsKept) {
  ExpectUnchanged("fuse_maps", R"(
mesh{data:2}
%x : f32[b:7/data=4] = input x
%e : f32[b:7/data=4] = map(%x) exp
%m : f32[b:7/data=4] = mask(%e) b fill 0
%y : f32[b:7/data=4] = map(%m) neg
output(%y) y
)");
}

TEST(FuseMaps, MapThatReadsAValueTwiceComputesItOnce) {
  EXPECT_EQ(AfterPass("fuse_maps", R"(
mesh{data:2}
%x : f32[b:8/data=4] = input x
%e : f32[b:8/data=4] = map(%x) exp
%y : f32[b:8/data=4] = map(%e, %e) mul
output(%y) y
)"),
            R"(
mesh{data:2}
%x : f32[b:8/data=4] = input x
%y : f32[b:8/data=4] = map(%x) [exp($0); mul($1, $1)]
output(%y) y
)");
}

TEST(FuseMaps, SumOfALiteralReadsNothing) {
  EXPECT_EQ(AfterPass("fuse_maps", R"(
mesh{data:2}
%one : f32[b:8/data=4, h:16] = map [literal.f32(1)]
%s : f32[b:8/data=4] = reduce(%one) sum
output(%s) s
)"),
            R"(
mesh{data:2}
%s : f32[b:8/data=4] = reduce sum [literal.f32(1)] over [b:8/data=4, h:16]
output(%s) s
)");
}

TEST(FuseMaps, ChainFusesIntoAMaskedReduction) {
  EXPECT_EQ(AfterPass("fuse_maps", R"(
mesh{model:2}
%x : f32[b:4, h:13/model=7] = input x
%e : f32[b:4, h:13/model=7] = map(%x) exp
%n : f32[b:4, h:13/model=7] = map(%e) neg
%m : f32[b:4, h:13/model=7] = mask(%n) h fill 0
%q : f32[b:4, h:13/model=7] = map(%m) square
%s : f32[b:4] unreduced{model} = reduce(%q) sum
%all : f32[b:4] = all_reduce(%s) sum over{model}
output(%all) s
)"),
            R"(
mesh{model:2}
%x : f32[b:4, h:13/model=7] = input x
%n : f32[b:4, h:13/model=7] = map(%x) [exp($0); neg($1)]
%m : f32[b:4, h:13/model=7] = mask(%n) h fill 0
%s : f32[b:4] unreduced{model} = reduce(%m) sum square over [b:4, h:13/model=7]
%all : f32[b:4] = all_reduce(%s) sum over{model}
output(%all) s
)");
}

// 30 and 18 fit, one more does not.
TEST(FuseMaps, KernelHasAtMost48Steps) {
  EXPECT_EQ(AfterPass("fuse_maps", R"(
mesh{data:2}
%x : f32[b:8/data=4] = input x
%y : f32[b:8/data=4] = map(%x)
    [neg($0); neg($1); neg($2); neg($3); neg($4); neg($5); neg($6); neg($7); neg($8); neg($9);
    neg($10); neg($11); neg($12); neg($13); neg($14); neg($15); neg($16); neg($17); neg($18); neg($19);
    neg($20); neg($21); neg($22); neg($23); neg($24); neg($25); neg($26); neg($27); neg($28); neg($29)]
%z : f32[b:8/data=4] = map(%y)
    [neg($0); neg($1); neg($2); neg($3); neg($4); neg($5); neg($6); neg($7); neg($8); neg($9);
    neg($10); neg($11); neg($12); neg($13); neg($14); neg($15); neg($16); neg($17)]
%t : f32[b:8/data=4] = map(%z) neg
output(%t) t
)"),
            R"(
mesh{data:2}
%x : f32[b:8/data=4] = input x
%z : f32[b:8/data=4] = map(%x) [neg($0); neg($1); neg($2); neg($3); neg($4); neg($5); neg($6); neg($7); neg($8);
    neg($9); neg($10); neg($11); neg($12); neg($13); neg($14); neg($15); neg($16); neg($17); neg($18); neg($19);
    neg($20); neg($21); neg($22); neg($23); neg($24); neg($25); neg($26); neg($27); neg($28); neg($29); neg($30);
    neg($31); neg($32); neg($33); neg($34); neg($35); neg($36); neg($37); neg($38); neg($39); neg($40); neg($41);
    neg($42); neg($43); neg($44); neg($45); neg($46); neg($47)]
%t : f32[b:8/data=4] = map(%z) neg
output(%t) t
)");
}

// A running sum over the uses of a weight: one sum is in memory, not all
// summands.
TEST(FuseMaps, SumsBetweenEinsumsAreKept) {
  ExpectUnchanged("fuse_maps", R"(
mesh{}
%x : f32[b:8, h:16] = input x
%y : f32[b:8, o:4] = input y
%e0 : f32[h:16, o:4] = einsum(%x, %y) sum{b}
%e1 : f32[h:16, o:4] = einsum(%x, %y) sum{b}
%s1 : f32[h:16, o:4] = map(%e0, %e1) add
%e2 : f32[h:16, o:4] = einsum(%x, %y) sum{b}
%s2 : f32[h:16, o:4] = map(%s1, %e2) add
output(%s2) s
)");
}

// Without an einsum in between, nothing is gained.
TEST(FuseMaps, SumsAfterTheLastEinsumAreOneMap) {
  EXPECT_EQ(AfterPass("fuse_maps", R"(
mesh{}
%x : f32[b:8, h:16] = input x
%y : f32[b:8, o:4] = input y
%e0 : f32[h:16, o:4] = einsum(%x, %y) sum{b}
%e1 : f32[h:16, o:4] = einsum(%x, %y) sum{b}
%e2 : f32[h:16, o:4] = einsum(%x, %y) sum{b}
%s1 : f32[h:16, o:4] = map(%e0, %e1) add
%s2 : f32[h:16, o:4] = map(%s1, %e2) add
output(%s2) s
)"),
            R"(
mesh{}
%x : f32[b:8, h:16] = input x
%y : f32[b:8, o:4] = input y
%e0 : f32[h:16, o:4] = einsum(%x, %y) sum{b}
%e1 : f32[h:16, o:4] = einsum(%x, %y) sum{b}
%e2 : f32[h:16, o:4] = einsum(%x, %y) sum{b}
%s2 : f32[h:16, o:4] = map(%e2, %e0, %e1) [add($1, $2); add($3, $0)]
output(%s2) s
)");
}

// Counted before shared operands are merged.
TEST(FuseMaps, KernelReadsAtMostTenOperands) {
  EXPECT_EQ(AfterPass("fuse_maps", R"(
mesh{data:2}
%a : f32[b:8/data=4] = input a
%b : f32[b:8/data=4] = input b
%c : f32[b:8/data=4] = input c
%d : f32[b:8/data=4] = input d
%e : f32[b:8/data=4] = input e
%f : f32[b:8/data=4] = input f
%s : f32[b:8/data=4] = map(%a, %b, %c, %d, %e)
    [add($0, $1); add($5, $2); add($6, $3); add($7, $4)]
%t : f32[b:8/data=4] = map(%f, %a, %b, %c, %d, %s)
    [add($0, $1); add($6, $2); add($7, $3); add($8, $4); add($9, $5)]
output(%t) t
)"),
            R"(
mesh{data:2}
%a : f32[b:8/data=4] = input a
%b : f32[b:8/data=4] = input b
%c : f32[b:8/data=4] = input c
%d : f32[b:8/data=4] = input d
%e : f32[b:8/data=4] = input e
%f : f32[b:8/data=4] = input f
%s : f32[b:8/data=4] = map(%a, %b, %c, %d, %e) [add($0, $1); add($5, $2); add($6, $3); add($7, $4)]
%t : f32[b:8/data=4] = map(%f, %a, %b, %c, %d, %s) [add($0, $1); add($6, $2); add($7, $3); add($8, $4); add($9, $5)]
output(%t) t
)");
}

}  // namespace
}  // namespace mtf::testing
