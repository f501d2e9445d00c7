// SPDX-License-Identifier: Apache-2.0
//
// Collectives overlap with compute that does not need them: started early,
// waited for late, within bounded memory and in program order.
#include "lowering/passes/overlap_collectives.h"

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lowering/program/count_costs.h"
#include "planning/cost/estimate_time.h"
#include "planning/machine/machine.h"
#include "tests/lowering/gpt_layers.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

constexpr char kPass[] = "overlap_collectives";

TEST(OverlapCollectives, AllReduceStartsAfterItsOperandAndEndsBeforeItsReader) {
  EXPECT_EQ(AfterPass(kPass, R"(
mesh{x:2}
%a : f32[b:4/x=2, c:8] = input a
%u : f32[c:8] = input u
%s : f32[c:8] unreduced{x} = reduce(%a) sum
%v : f32[c:8] = map(%u) relu
%r : f32[c:8] = all_reduce(%s) sum over{x}
%y : f32[c:8] = map(%v, %r) add
output(%y) y
)"),
            R"(
mesh{x:2}
%a : f32[b:4/x=2, c:8] = input a
%u : f32[c:8] = input u
%s : f32[c:8] unreduced{x} = reduce(%a) sum
%r : f32[c:8] = all_reduce(%s) sum over{x} asynchronous
%v : f32[c:8] = map(%u) relu
wait(%r)
%y : f32[c:8] = map(%v, %r) add
output(%y) y
)");
}

// No kernel runs between the two.
TEST(OverlapCollectives, CollectiveReadImmediatelyStaysSynchronous) {
  ExpectUnchanged(kPass, R"(
mesh{x:2}
%a : f32[b:4/x=2, c:8] = input a
%s : f32[c:8] unreduced{x} = reduce(%a) sum
%r : f32[c:8] = all_reduce(%s) sum over{x}
%y : f32[c:8] = map(%r) relu
output(%y) y
)");
}

// An earlier start would keep its result alive for longer.
TEST(OverlapCollectives, GatherOfAnActivationKeepsItsStart) {
  EXPECT_EQ(AfterPass(kPass, R"(
mesh{x:2}
%a : f32[b:4/x=2] = input a
%u : f32[c:8] = input u
%h : f32[b:4/x=2] = map(%a) relu
%v : f32[c:8] = map(%u) relu
%g : f32[b:4] = all_gather(%h) b over{x}
%w : f32[c:8] = map(%u) exp
%y : f32[b:4, c:8] = map(%g, %v) add
output(%y) y
output(%w) w
)"),
            R"(
mesh{x:2}
%a : f32[b:4/x=2] = input a
%u : f32[c:8] = input u
%h : f32[b:4/x=2] = map(%a) relu
%v : f32[c:8] = map(%u) relu
%g : f32[b:4] = all_gather(%h) b over{x} asynchronous
%w : f32[c:8] = map(%u) exp
wait(%g)
%y : f32[b:4, c:8] = map(%g, %v) add
output(%y) y
output(%w) w
)");
}

// One ahead: parameters gathered and not used yet take no more than was
// gathered at once before the pass.
TEST(OverlapCollectives, NextParameterIsGatheredDuringTheUseOfThisOne) {
  EXPECT_EQ(AfterPass(kPass, R"(
mesh{x:2}
%a : f32[b:4, c:8] = input a
%u : f32[c:8/x=4, d:8] = read_variable u
%u.full : f32[c:8, d:8] = all_gather(%u) c over{x}
%h : f32[b:4, d:8] = einsum(%a, %u.full) sum{c} by{m 4 n 8 k 8}
%v : f32[d:8/x=4, e:8] = read_variable v
%v.full : f32[d:8, e:8] = all_gather(%v) d over{x}
%i : f32[b:4, e:8] = einsum(%h, %v.full) sum{d} by{m 4 n 8 k 8}
%w : f32[e:8/x=4, f:8] = read_variable w
%w.half : bf16[e:8/x=4, f:8] = map(%w) [cast.bf16($0)]
%w.full : bf16[e:8, f:8] = all_gather(%w.half) e over{x}
%i.half : bf16[b:4, e:8] = map(%i) [cast.bf16($0)]
%j : bf16[b:4, f:8] = einsum(%i.half, %w.full) sum{e} by{m 4 n 8 k 8}
output(%j) j
)"),
            R"(
mesh{x:2}
%a : f32[b:4, c:8] = input a
%u : f32[c:8/x=4, d:8] = read_variable u
%u.full : f32[c:8, d:8] = all_gather(%u) c over{x}
%v : f32[d:8/x=4, e:8] = read_variable v
%v.full : f32[d:8, e:8] = all_gather(%v) d over{x} asynchronous
%h : f32[b:4, d:8] = einsum(%a, %u.full) sum{c} by{m 4 n 8 k 8}
%w : f32[e:8/x=4, f:8] = read_variable w
%w.half : bf16[e:8/x=4, f:8] = map(%w) [cast.bf16($0)]
%w.full : bf16[e:8, f:8] = all_gather(%w.half) e over{x} asynchronous
wait(%v.full)
%i : f32[b:4, e:8] = einsum(%h, %v.full) sum{d} by{m 4 n 8 k 8}
%i.half : bf16[b:4, e:8] = map(%i) [cast.bf16($0)]
wait(%w.full)
%j : bf16[b:4, f:8] = einsum(%i.half, %w.full) sum{e} by{m 4 n 8 k 8}
output(%j) j
)");
}

// Gathers far before their use move closer to it.
TEST(OverlapCollectives, EarlyGatherStartsLater) {
  EXPECT_EQ(AfterPass(kPass, R"(
mesh{x:2}
%t : f32[c:8/x=4] = read_variable t
%u : f32[c:8/x=4] = read_variable u
%v : f32[c:8/x=4] = read_variable v
%w : f32[c:8/x=4] = read_variable w
%a : f32[c:8] = input a
%w.full : f32[c:8] = all_gather(%w) c over{x}
%w.named : f32[d:8] = reshape(%w.full)
%u.full : f32[c:8] = all_gather(%u) c over{x}
%h : f32[c:8] = map(%a, %u.full) add
%v.full : f32[c:8] = all_gather(%v) c over{x}
%i : f32[c:8] = map(%a, %v.full) mul
%t.full : f32[c:8] = all_gather(%t) c over{x}
%k : f32[c:8] = map(%a, %t.full) add
%l : f32[c:8, d:8] = map(%a, %w.named) add
output(%h) h
output(%i) i
output(%k) k
output(%l) l
)"),
            R"(
mesh{x:2}
%t : f32[c:8/x=4] = read_variable t
%u : f32[c:8/x=4] = read_variable u
%v : f32[c:8/x=4] = read_variable v
%w : f32[c:8/x=4] = read_variable w
%a : f32[c:8] = input a
%u.full : f32[c:8] = all_gather(%u) c over{x}
%v.full : f32[c:8] = all_gather(%v) c over{x} asynchronous
%t.full : f32[c:8] = all_gather(%t) c over{x} asynchronous
%h : f32[c:8] = map(%a, %u.full) add
%w.full : f32[c:8] = all_gather(%w) c over{x} asynchronous
wait(%v.full)
%i : f32[c:8] = map(%a, %v.full) mul
wait(%t.full)
%k : f32[c:8] = map(%a, %t.full) add
wait(%w.full)
%w.named : f32[d:8] = reshape(%w.full)
%l : f32[c:8, d:8] = map(%a, %w.named) add
output(%h) h
output(%i) i
output(%k) k
output(%l) l
)");
}

// A device may run einsum, bias and relu as one kernel.
TEST(OverlapCollectives, NoStartOrWaitInsideAKernel) {
  EXPECT_EQ(AfterPass(kPass, R"(
mesh{x:2}
%a : f32[b:4, c:8] = input a
%w : f32[c:8, d:8] = input w
%v : f32[d:8/x=4] = read_variable v
%t : f32[b:4, c:8] = map(%a) exp
%h : f32[b:4, d:8] = einsum(%t, %w) sum{c} by{m 4 n 8 k 8}
%v.full : f32[d:8] = all_gather(%v) d over{x}
%i : f32[b:4, d:8] = map(%h, %v.full) add
%j : f32[b:4, d:8] = map(%i) relu
output(%j) j
)"),
            R"(
mesh{x:2}
%a : f32[b:4, c:8] = input a
%w : f32[c:8, d:8] = input w
%v : f32[d:8/x=4] = read_variable v
%v.full : f32[d:8] = all_gather(%v) d over{x} asynchronous
%t : f32[b:4, c:8] = map(%a) exp
wait(%v.full)
%h : f32[b:4, d:8] = einsum(%t, %w) sum{c} by{m 4 n 8 k 8}
%i : f32[b:4, d:8] = map(%h, %v.full) add
%j : f32[b:4, d:8] = map(%i) relu
output(%j) j
)");
}

// The operand of a reduce_scatter stays alive until its wait.
TEST(OverlapCollectives, AtMostTwoHoldTheirOperands) {
  std::string before = "\nmesh{x:2}\n", after = before;
  for (const char* v : {"a", "b", "c"}) {
    const std::string line =
        absl::StrCat("%", v, " : f32[i:2/x=1, j:4] = input ", v, "\n");
    before += line;
    after += line;
  }
  const std::string u = "%u : f32[j:4] = input u\n";
  before += u;
  after += u;
  std::string made_last;
  for (const char* v : {"a", "b", "c"}) {
    const std::string sum = absl::StrCat(
        "%", v, "1 : f32[j:4] unreduced{x} = reduce(%", v, ") sum\n");
    const std::string call = absl::StrCat(
        "%", v, "2 : f32[j:4/x=2] = reduce_scatter(%", v, "1) sum j over{x}");
    absl::StrAppend(&before, sum, call, "\n");
    if (std::string(v) == "c")
      after += sum + "wait(%a2)\n" + call + " asynchronous\n";
    if (std::string(v) != "c") after += sum + call + " asynchronous\n";
  }
  const std::string rest = "%t : f32[j:4] = map(%u) relu\n";
  before += rest;
  after += rest + "wait(%b2, %c2)\n";
  const std::string end =
      "%y : f32[j:4/x=2] = map(%a2, %b2, %c2) [add($0, $1); add($2, $3)]\n"
      "output(%y) y\noutput(%t) t\n";
  EXPECT_EQ(AfterPass(kPass, before + end), after + end);
}

// The second all_reduce reads the first, so the wait precedes its start.
TEST(OverlapCollectives, CollectiveOfACollectiveFollowsItsWait) {
  EXPECT_EQ(AfterPass(kPass, R"(
mesh{x:2, y:2}
%a : f32[b:4/x=2, d:4/y=2, c:8] = input a
%u : f32[c:8] = input u
%s : f32[c:8] unreduced{x, y} = reduce(%a) sum
%v : f32[c:8] = map(%u) relu
%r : f32[c:8] unreduced{y} = all_reduce(%s) sum over{x}
%q : f32[c:8] = all_reduce(%r) sum over{y}
%w : f32[c:8] = map(%u) exp
%y : f32[c:8] = map(%v, %q) add
output(%y) y
output(%w) w
)"),
            R"(
mesh{x:2, y:2}
%a : f32[b:4/x=2, d:4/y=2, c:8] = input a
%u : f32[c:8] = input u
%s : f32[c:8] unreduced{x, y} = reduce(%a) sum
%r : f32[c:8] unreduced{y} = all_reduce(%s) sum over{x} asynchronous
%v : f32[c:8] = map(%u) relu
wait(%r)
%q : f32[c:8] = all_reduce(%r) sum over{y} asynchronous
%w : f32[c:8] = map(%u) exp
wait(%q)
%y : f32[c:8] = map(%v, %q) add
output(%y) y
output(%w) w
)");
}

// A rename runs no kernel: it moves to its own reader.
TEST(OverlapCollectives, RenameDoesNotForceAWait) {
  EXPECT_EQ(AfterPass(kPass, R"(
mesh{x:2}
%a : f32[b:4/x=2, c:8] = input a
%u : f32[c:8] = input u
%s : f32[c:8] unreduced{x} = reduce(%a) sum
%r : f32[c:8] = all_reduce(%s) sum over{x}
%n : f32[d:8] = reshape(%r)
%v : f32[c:8] = map(%u) relu
%y : f32[c:8, d:8] = map(%u, %n) add
output(%y) y
output(%v) v
)"),
            R"(
mesh{x:2}
%a : f32[b:4/x=2, c:8] = input a
%u : f32[c:8] = input u
%s : f32[c:8] unreduced{x} = reduce(%a) sum
%r : f32[c:8] = all_reduce(%s) sum over{x} asynchronous
%v : f32[c:8] = map(%u) relu
wait(%r)
%n : f32[d:8] = reshape(%r)
%y : f32[c:8, d:8] = map(%u, %n) add
output(%y) y
output(%v) v
)");
}

// An all_reduce of a renamed value starts after the producer of the value.
TEST(OverlapCollectives, RenameDoesNotDelayTheStart) {
  EXPECT_EQ(AfterPass(kPass, R"(
mesh{x:2}
%a : f32[b:4/x=2, c:8] = input a
%u : f32[c:8] = input u
%s : f32[c:8] unreduced{x} = reduce(%a) sum
%v : f32[c:8] = map(%u) relu
%n : f32[d:8] unreduced{x} = reshape(%s)
%r : f32[d:8] = all_reduce(%n) sum over{x}
%y : f32[c:8, d:8] = map(%u, %r) add
output(%y) y
output(%v) v
)"),
            R"(
mesh{x:2}
%a : f32[b:4/x=2, c:8] = input a
%u : f32[c:8] = input u
%s : f32[c:8] unreduced{x} = reduce(%a) sum
%n : f32[d:8] unreduced{x} = reshape(%s)
%r : f32[d:8] = all_reduce(%n) sum over{x} asynchronous
%v : f32[c:8] = map(%u) relu
wait(%r)
%y : f32[c:8, d:8] = map(%u, %r) add
output(%y) y
output(%v) v
)");
}

// The gather of the shards that each rank has updated overlaps with the next
// update; its wait ends the step.
TEST(OverlapCollectives, UpdatedParameterIsWaitedForAtTheEnd) {
  EXPECT_EQ(AfterPass(kPass, R"(
mesh{x:2}
%v : f32[d:8] = read_variable v
%w : f32[d:8] = read_variable w
%v.part : f32[d:8/x=4] = all_slice(%v) d over{x}
%v.new : f32[d:8/x=4] = map(%v.part) exp
%v.full : f32[d:8] = all_gather(%v.new) d over{x}
%v.kept : f32[d:8] = write_variable(%v.full) v
%w.new : f32[d:8] = map(%w) exp
%w.kept : f32[d:8] = write_variable(%w.new) w
)"),
            R"(
mesh{x:2}
%v : f32[d:8] = read_variable v
%w : f32[d:8] = read_variable w
%v.part : f32[d:8/x=4] = all_slice(%v) d over{x}
%v.new : f32[d:8/x=4] = map(%v.part) exp
%v.full : f32[d:8] = all_gather(%v.new) d over{x} asynchronous
%w.new : f32[d:8] = map(%w) exp
%w.kept : f32[d:8] = write_variable(%w.new) w
wait(%v.full)
%v.kept : f32[d:8] = write_variable(%v.full) v
)");
}

TEST(OverlapCollectives, ProgramWithAWaitIsUnchanged) {
  ExpectUnchanged(kPass, R"(
mesh{x:2}
%a : f32[b:4/x=2, c:8] = input a
%u : f32[c:8] = input u
%s : f32[c:8] unreduced{x} = reduce(%a) sum
%v : f32[c:8] = map(%u) relu
%r : f32[c:8] = all_reduce(%s) sum over{x} asynchronous
%w : f32[c:8] = map(%v) exp
wait(%r)
%y : f32[c:8] = map(%w, %r) add
output(%y) y
)");
}

}  // namespace
}  // namespace mtf::testing
