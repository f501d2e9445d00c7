// SPDX-License-Identifier: Apache-2.0
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

TEST(DelayAllReduces, UnreducedSumsAreAddedFirstAndReducedOnce) {
  EXPECT_EQ(AfterPass("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = reshard(%y)
%w : f32[h:16/model, o:4] = input w
%z : f32[b:8, o:4] unreduced{model} = einsum(%x, %w) sum{h}
%z.sum : f32[b:8, o:4] = reshard(%z)
%s : f32[b:8, o:4] = map(%y.sum, %z.sum) add
output(%s) s
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%w : f32[h:16/model, o:4] = input w
%z : f32[b:8, o:4] unreduced{model} = einsum(%x, %w) sum{h}
%s_1 : f32[b:8, o:4] unreduced{model} = map(%y, %z) add
%s : f32[b:8, o:4] = reshard(%s_1)
output(%s) s
)");
}

TEST(DelayAllReduces, DifferencesAreTakenFirstAndReducedOnce) {
  EXPECT_EQ(AfterPass("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = reshard(%y)
%w : f32[h:16/model, o:4] = input w
%z : f32[b:8, o:4] unreduced{model} = einsum(%x, %w) sum{h}
%z.sum : f32[b:8, o:4] = reshard(%z)
%s : f32[b:8, o:4] = map(%y.sum, %z.sum) sub
output(%s) s
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%w : f32[h:16/model, o:4] = input w
%z : f32[b:8, o:4] unreduced{model} = einsum(%x, %w) sum{h}
%s_1 : f32[b:8, o:4] unreduced{model} = map(%y, %z) sub
%s : f32[b:8, o:4] = reshard(%s_1)
output(%s) s
)");
}

TEST(DelayAllReduces, ScalesAndNegationsMoveBeforeTheReduction) {
  EXPECT_EQ(AfterPass("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = reshard(%y)
%half : f32[b:8, o:4] = map(%y.sum) [literal.f32(0.5); mul($0, $1)]
%neg : f32[b:8, o:4] = map(%half) neg
%third : f32[b:8, o:4] = map(%neg) [literal.f32(3); div($0, $1)]
output(%third) s
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%half_1 : f32[b:8, o:4] unreduced{model} = map(%y) [literal.f32(0.5); mul($0, $1)]
%neg_1 : f32[b:8, o:4] unreduced{model} = map(%half_1) neg
%third_1 : f32[b:8, o:4] unreduced{model} = map(%neg_1) [literal.f32(3); div($0, $1)]
%third : f32[b:8, o:4] = reshard(%third_1)
output(%third) s
)");
}

TEST(DelayAllReduces, WideningCastMovesBeforeTheReduction) {
  EXPECT_EQ(AfterPass("delay_all_reduces", R"(
mesh{model:2}
%x : bf16[b:8, h:16/model] = input x
%v : bf16[h:16/model, o:4] = input v
%y : bf16[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : bf16[b:8, o:4] = reshard(%y)
%wide : f32[b:8, o:4] = map(%y.sum) [cast.f32($0)]
output(%wide) s
)"),
            R"(
mesh{model:2}
%x : bf16[b:8, h:16/model] = input x
%v : bf16[h:16/model, o:4] = input v
%y : bf16[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%wide_1 : f32[b:8, o:4] unreduced{model} = map(%y) [cast.f32($0)]
%wide : f32[b:8, o:4] = reshard(%wide_1)
output(%wide) s
)");
}

// All devices but one add zeros, so each can round before the reduction.
TEST(DelayAllReduces, NarrowingCastOfALookupMovesBeforeTheReduction) {
  EXPECT_EQ(AfterPass("delay_all_reduces", R"(
mesh{model:2}
%table : f32[vocab:8/model, o:4] = input table
%tokens : i32[b:8] = input tokens
%rows : f32[b:8, o:4] unreduced{model} = gather(%table, %tokens) vocab
%rows.sum : f32[b:8, o:4] = reshard(%rows)
%narrow : bf16[b:8, o:4] = map(%rows.sum) [cast.bf16($0)]
output(%narrow) s
)"),
            R"(
mesh{model:2}
%table : f32[vocab:8/model, o:4] = input table
%tokens : i32[b:8] = input tokens
%rows : f32[b:8, o:4] unreduced{model} = gather(%table, %tokens) vocab
%narrow_1 : bf16[b:8, o:4] unreduced{model} = map(%rows) [cast.bf16($0)]
%narrow : bf16[b:8, o:4] = reshard(%narrow_1)
output(%narrow) s
)");
}

TEST(DelayAllReduces, TransposeMovesBeforeTheReduction) {
  EXPECT_EQ(AfterPass("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = reshard(%y)
%t : f32[o:4, b:8] = map(%y.sum) identity
output(%t) s
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%t_1 : f32[o:4, b:8] unreduced{model} = map(%y) identity
%t : f32[o:4, b:8] = reshard(%t_1)
output(%t) s
)");
}

TEST(DelayAllReduces, SlicesZeroPadsAndRenamesMoveBeforeTheReduction) {
  EXPECT_EQ(AfterPass("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = reshard(%y)
%s : f32[b:3, o:4] = slice(%y.sum) b begin 2
%p : f32[b:3, o:6] = pad(%s) o before 1 fill 0
%r : f32[b:3, o2:6] = reshape(%p)
output(%r) s
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%s_1 : f32[b:3, o:4] unreduced{model} = slice(%y) b begin 2
%p_1 : f32[b:3, o:6] unreduced{model} = pad(%s_1) o before 1 fill 0
%r_1 : f32[b:3, o2:6] unreduced{model} = reshape(%p_1)
%r : f32[b:3, o2:6] = reshard(%r_1)
output(%r) s
)");
}

TEST(DelayAllReduces, ConcatOfSumsIsReducedOnce) {
  EXPECT_EQ(AfterPass("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = reshard(%y)
%w : f32[h:16/model, o:4] = input w
%z : f32[b:8, o:4] unreduced{model} = einsum(%x, %w) sum{h}
%z.sum : f32[b:8, o:4] = reshard(%z)
%c : f32[b:8, o:8] = concat(%y.sum, %z.sum) o
output(%c) s
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%w : f32[h:16/model, o:4] = input w
%z : f32[b:8, o:4] unreduced{model} = einsum(%x, %w) sum{h}
%c_1 : f32[b:8, o:8] unreduced{model} = concat(%y, %z) o
%c : f32[b:8, o:8] = reshard(%c_1)
output(%c) s
)");
}

TEST(DelayAllReduces, SumOfASumIsReducedLast) {
  EXPECT_EQ(AfterPass("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = reshard(%y)
%t : f32[b:8] = reduce(%y.sum) sum
output(%t) s
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%t_1 : f32[b:8] unreduced{model} = reduce(%y) sum
%t : f32[b:8] = reshard(%t_1)
output(%t) s
)");
}

// One all_reduce over both axes instead of one over each.
TEST(DelayAllReduces, SumOverAnotherAxisIsReducedWithIt) {
  EXPECT_EQ(AfterPass("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8/data, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8/data, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8/data, o:4] = reshard(%y)
%t : f32[o:4] unreduced{data} = reduce(%y.sum) sum
%t.sum : f32[o:4] = reshard(%t)
output(%t.sum) s
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8/data, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8/data, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%t_1 : f32[o:4] unreduced{data, model} = reduce(%y) sum
%t.sum : f32[o:4] = reshard(%t_1)
output(%t.sum) s
)");
}

// y + n + z is (y + z) + n: one reduction instead of two.
TEST(DelayAllReduces, UnreducedTermsOfAChainAreAddedFirst) {
  EXPECT_EQ(AfterPass("delay_all_reduces", R"(
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
output(%t) t
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%w : f32[h:16/model, o:4] = input w
%z : f32[b:8, o:4] unreduced{model} = einsum(%x, %w) sum{h}
%n : f32[b:8, o:4] = input n
%t_1_1 : f32[b:8, o:4] unreduced{model} = map(%y, %z) add
%t_1 : f32[b:8, o:4] = reshard(%t_1_1)
%t : f32[b:8, o:4] = map(%t_1, %n) add
output(%t) t
)");
}

// A reader of a sharded sum gets one reshard, later a reduce_scatter.
TEST(DelayAllReduces, ReshardOfAReshardIsOne) {
  EXPECT_EQ(AfterPass("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%y.sum : f32[b:8, o:4] = reshard(%y)
%c : f32[b:8, o:4/model] = reshard(%y.sum)
output(%c) c
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%y : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%c : f32[b:8, o:4/model] = reshard(%y)
output(%c) c
)");
}

TEST(DelayAllReduces, ReshardThatUndoesAReshardIsRemoved) {
  EXPECT_EQ(AfterPass("delay_all_reduces", R"(
mesh{model:2}
%x : f32[b:8/model, h:16] = input x
%g : f32[b:8, h:16] = reshard(%x)
%c : f32[b:8/model, h:16] = reshard(%g)
%r : f32[b:8/model, h:16] = map(%c) relu
output(%r) r
)"),
            R"(
mesh{model:2}
%x : f32[b:8/model, h:16] = input x
%r : f32[b:8/model, h:16] = map(%x) relu
output(%r) r
)");
}

TEST(DelayAllReduces, ATermThatOccursTwiceIsAddedFirst) {
  EXPECT_EQ(AfterPass("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%p : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%p.sum : f32[b:8, o:4] = reshard(%p)
%w : f32[h:16/model, o:4] = input w
%q : f32[b:8, o:4] unreduced{model} = einsum(%x, %w) sum{h}
%q.sum : f32[b:8, o:4] = reshard(%q)
%1 : f32[b:8, o:4] = map(%p.sum, %q.sum) add
%2 : f32[b:8, o:4] = map(%1, %p.sum) add
output(%2) s
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%p : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%w : f32[h:16/model, o:4] = input w
%q : f32[b:8, o:4] unreduced{model} = einsum(%x, %w) sum{h}
%1_1 : f32[b:8, o:4] unreduced{model} = map(%p, %q) add
%2_1 : f32[b:8, o:4] unreduced{model} = map(%1_1, %p) add
%2 : f32[b:8, o:4] = reshard(%2_1)
output(%2) s
)");
}

TEST(DelayAllReduces, UsesThatMeetInLinearInstructionsAreReducedOnce) {
  EXPECT_EQ(AfterPass("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%p : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%p.sum : f32[b:8, o:4] = reshard(%p)
%w : f32[h:16/model, o:4] = input w
%q : f32[b:8, o:4] unreduced{model} = einsum(%x, %w) sum{h}
%q.sum : f32[b:8, o:4] = reshard(%q)
%neg : f32[b:8, o:4] = map(%p.sum) neg
%1 : f32[b:8, o:4] = map(%q.sum, %p.sum) sub
%2 : f32[b:8, o:4] = map(%1) [literal.f32(2); mul($0, $1)]
%3 : f32[b:8, o:4] = map(%2, %neg) sub
output(%3) s
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%p : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%w : f32[h:16/model, o:4] = input w
%q : f32[b:8, o:4] unreduced{model} = einsum(%x, %w) sum{h}
%neg_1 : f32[b:8, o:4] unreduced{model} = map(%p) neg
%1_1 : f32[b:8, o:4] unreduced{model} = map(%q, %p) sub
%2_1 : f32[b:8, o:4] unreduced{model} = map(%1_1) [literal.f32(2); mul($0, $1)]
%3_1 : f32[b:8, o:4] unreduced{model} = map(%2_1, %neg_1) sub
%3 : f32[b:8, o:4] = reshard(%3_1)
output(%3) s
)");
}

TEST(DelayAllReduces, ReducedTermsOfAChainAreAddedLast) {
  EXPECT_EQ(AfterPass("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%p : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%p.sum : f32[b:8, o:4] = reshard(%p)
%w : f32[h:16/model, o:4] = input w
%q : f32[b:8, o:4] unreduced{model} = einsum(%x, %w) sum{h}
%q.sum : f32[b:8, o:4] = reshard(%q)
%r : f32[b:8, o:4] = input r
%1 : f32[b:8, o:4] = map(%r, %p.sum) sub
%2 : f32[b:8, o:4] = map(%1, %q.sum) add
%3 : f32[b:8, o:4] = map(%2, %p.sum) sub
output(%3) s
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%p : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%w : f32[h:16/model, o:4] = input w
%q : f32[b:8, o:4] unreduced{model} = einsum(%x, %w) sum{h}
%r : f32[b:8, o:4] = input r
%3_1_1 : f32[b:8, o:4] unreduced{model} = map(%p, %q) sub
%3_2_1 : f32[b:8, o:4] unreduced{model} = map(%3_1_1, %p) add
%3_2 : f32[b:8, o:4] = reshard(%3_2_1)
%3 : f32[b:8, o:4] = map(%r, %3_2) sub
output(%3) s
)");
}

// "p" is needed reduced, so the sum of "p" and "q" is computed from reduced
// values.
TEST(DelayAllReduces, AUseThatIsNotLinearKeepsTheReduction) {
  ExpectUnchanged("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%p : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%p.sum : f32[b:8, o:4] = reshard(%p)
%w : f32[h:16/model, o:4] = input w
%q : f32[b:8, o:4] unreduced{model} = einsum(%x, %w) sum{h}
%q.sum : f32[b:8, o:4] = reshard(%q)
%1 : f32[b:8, o:4] = map(%p.sum, %q.sum) add
%2 : f32[b:8, o:4] = map(%1, %p.sum) add
%3 : f32[b:8, o:4] = map(%p.sum) relu
output(%2) s
output(%3) t
)");
}

// Each result alone would be reduced: two reductions for one.
TEST(DelayAllReduces, UsesThatDoNotMeetKeepTheReduction) {
  ExpectUnchanged("delay_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8, h:16/model] = input x
%v : f32[h:16/model, o:4] = input v
%p : f32[b:8, o:4] unreduced{model} = einsum(%x, %v) sum{h}
%p.sum : f32[b:8, o:4] = reshard(%p)
%1 : f32[b:8, o:4] = map(%p.sum) neg
%2 : f32[b:8, o:4] = map(%p.sum) [literal.f32(2); mul($0, $1)]
output(%1) s
output(%2) t
)");
}

}  // namespace
}  // namespace mtf::testing
